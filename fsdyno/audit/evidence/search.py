"""The search of a store for the two cells that show best what a finding costs.

Numbers are compared as in reports: paired by round, within one place, times only where they show the devices
(`report.judge`), effects by `stats`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from fsdyno.audit.evidence.model import Evidence, Seen, Shown
from fsdyno.report.judge import Judge
from fsdyno.report.model import Column
from fsdyno.report.rows import label_of
from fsdyno.stats.difference import Difference, difference
from fsdyno.stats.judging import timed
from fsdyno.stats.median import median
from fsdyno.stats.ratio import Ratio, paired, ratio
from fsdyno.store import CampaignInfo, Cell, Quantity, Trial, canonical
from fsdyno.store.reading import STOPPED

if TYPE_CHECKING:
    from fsdyno.audit.stack import Stack
    from fsdyno.plan import Cell as Planned
    from fsdyno.store import Store

MEASURED = "measured"

HasSpec = TypeVar("HasSpec", "Cell", "Planned")


@dataclass(frozen=True)
class Effect:
    """What two cells of a campaign show: `wrong` and `right` are medians of the rounds that have both."""

    evidence: Evidence
    shown: Shown
    info: CampaignInfo
    cell: Cell  # the wrong one
    other: Cell  # the right one
    trial: Trial  # one of its trials, for where it ran
    phase: str
    unit: str
    wrong: float
    right: float
    size: Ratio | Difference  # wrong / right, or wrong - right
    doubted: int  # trials of both cells with doubts
    reference: bool  # whether the right one is the campaign's reference

    @property
    def type(self) -> str:
        """The file system's; empty for a directory."""
        return str((self.cell.spec.get("filesystem") or {}).get("type") or "")


def best(evidence: Evidence, stack: Stack, store: Store) -> Effect | None:
    """The effect that is nearest to this stack: of its type of file system if there is one, then with an
    interval, then of its array's level, then of most rounds, then the latest. Raises `UserError` for a
    damaged store."""
    kind = stack.filesystem.type if stack.filesystem else None
    levels = {level_of(layer.facts.get("level")) for layer in stack.of_kind("md")}

    def nearness(effect: Effect) -> tuple[bool, bool, bool, int, float, bool]:
        array = (effect.cell.spec.get("stack") or {}).get("array") or {}
        return (
            effect.type == kind,
            effect.size.low is not None,
            level_of(array.get("level")) in levels,
            effect.size.n,
            effect.info.started,
            effect.reference,
        )

    found = (effect for info in store.campaigns() for effect in _effects(evidence, info, store))
    return max(found, key=nearness, default=None)


def alike(evidence: Evidence, cells: Iterable[HasSpec]) -> dict[str, list[HasSpec]]:
    """Cells that are equal but for what the contrast lets differ, and for the time that they were given."""
    found: dict[str, list[HasSpec]] = {}
    for cell in cells:
        found.setdefault(canonical(_without(cell.spec, ("timeout", *evidence.differ))), []).append(cell)
    return found


def level_of(level: Any) -> int | None:
    """The number of an array's level, which sysfs writes as `raid5`."""
    digits = str(level).removeprefix("raid")
    return int(digits) if digits.isascii() and digits.isdecimal() else None


def _effects(evidence: Evidence, info: CampaignInfo, store: Store) -> Iterator[Effect]:
    ran = [cell for cell in info.cells if cell.excluded is None]
    groups = [cells for cells in alike(evidence, ran).values() if len(cells) > 1]
    # Most campaigns end here, before anything of their trials is read.
    if info.source != MEASURED or not groups or not store.complete_rounds(info.id):
        return
    trials = [trial for trial in store.trials(info.id) if trial.outcome not in STOPPED]
    judge = Judge(store, info, trials)
    doubted = {note.trial for note in store.phase_notes(info.id) if note.flags}
    doubted |= {trial.id for trial in trials if trial.flags}
    for cells in groups:
        mine = {cell.index: [trial for trial in trials if trial.cell == cell.index] for cell in cells}
        sides = {
            cell.index: evidence.is_wrong(Seen(cell.spec, tuple(trial.stood for trial in mine[cell.index])))
            for cell in cells
            if mine[cell.index]
        }
        wrongs = [cell for cell in cells if sides.get(cell.index) is True]
        rights = [cell for cell in cells if sides.get(cell.index) is False]
        for wrong, right in product(wrongs, rights):
            both = [*mine[wrong.index], *mine[right.index]]
            effect = _effect(evidence, info, store, judge, wrong, right, both, doubted)
            if effect is not None:
                yield effect


def _effect(
    evidence: Evidence,
    info: CampaignInfo,
    store: Store,
    judge: Judge,
    wrong: Cell,
    right: Cell,
    trials: list[Trial],
    doubted: set[str],
) -> Effect | None:
    """The effect in the first metric that both cells have, and that may be compared."""
    for shown in evidence.shown:
        metric = info.metrics.get(shown.metric)
        phases = phases_of(wrong.spec, shown)
        if metric is None or not phases:
            continue
        quantities = store.samples(info.id, metrics=[shown.metric], phases=set(phases))
        for q in sorted(quantities, key=lambda q: phases.index(q.phase)):
            column = Column(
                q.phase, q.kind, q.load, q.point, "", q.metric, metric.unit, metric.direction, headline=False
            )
            if q.load != shown.load or judge.why_not_compared(column, wrong.index, right.index):
                continue
            x, y = paired(*_of(q, wrong), *_of(q, right))
            size = _size(x, y, metric.unit)
            if size is None:
                continue
            return Effect(
                evidence=evidence,
                shown=shown,
                info=info,
                cell=wrong,
                other=right,
                trial=trials[0],
                phase=q.phase,
                unit=metric.unit,
                wrong=median(x).value,
                right=median(y).value,
                size=size,
                doubted=len({trial.id for trial in trials} & doubted),
                reference=bool(info.reference) and {**label_of(right), **info.reference} == label_of(right),
            )
    return None


def _size(x: Any, y: Any, unit: str) -> Ratio | Difference | None:
    """Times and rates as a ratio, counts, which may be 0, as a difference. None without a pair, or where a
    number is none."""
    if not all(map(isfinite, (*x, *y))):
        return None
    found: Ratio | Difference | None = ratio(x, y) if timed(unit) else difference(x, y)
    if found is None or not all(n is None or isfinite(n) for n in (found.value, found.low, found.high)):
        return None
    return found


def phases_of(spec: dict[str, Any], shown: Shown) -> list[str]:
    """Names of the phases of a spec that do the load, in the order of the operations that show it best."""
    found = []
    for phase in spec.get("phases") or []:
        load = (phase.get("workload") or {}).get(shown.load)
        if load and load.get("op") in shown.ops:
            found.append((shown.ops.index(load["op"]), str(phase.get("name") or "workload")))
    return [name for _, name in sorted(found, key=lambda one: one[0])]


def _of(q: Quantity, cell: Cell) -> tuple[Any, Any]:
    mine = q.cells == cell.index
    return q.rounds[mine], q.values[mine]


def _without(spec: Any, paths: tuple[str, ...]) -> Any:
    """A spec without what stands at these dotted paths, and without tables that this leaves empty."""
    if not isinstance(spec, dict):
        return spec
    found = {}
    for key, value in spec.items():
        below = tuple(path.removeprefix(f"{key}.") for path in paths if path.startswith(f"{key}."))
        if key in paths:
            continue
        kept = _without(value, below) if below else value
        if not (below and kept == {}):
            found[key] = kept
    return found
