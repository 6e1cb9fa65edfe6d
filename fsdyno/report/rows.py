"""The rows of a report: what each cell was, where it ran, what stood, and what is wrong with that."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fsdyno.report.judge import Judge
from fsdyno.report.model import Row
from fsdyno.store import CampaignInfo, Cell, PhaseNote, Trial
from fsdyno.store.stood import NONE, OFF

_WRITE_THROUGH = "write through"
"""The mode of a device's cache in which the kernel sends no flushes."""


def rows_of(info: CampaignInfo, trials: list[Trial], notes: list[PhaseNote], judge: Judge) -> list[Row]:
    """A row for each cell, in the plan's order."""
    by_cell: dict[int, list[Trial]] = {}
    for trial in trials:
        by_cell.setdefault(trial.cell, []).append(trial)
    doubted = {note.trial for note in notes if note.flags} | {trial.id for trial in trials if trial.flags}
    systems = {fs["name"]: fs for fs in info.describe.get("filesystems", [])}
    rows = []
    names = _names(info)
    for cell in info.cells:
        mine = by_cell.get(cell.index, [])
        drivers = Counter(trial.driver for trial in mine if trial.driver)
        not_ok = Counter(sentence(trial.reason) for trial in mine if trial.outcome != "ok" and trial.reason)
        reasons = [sentence(cell.reason)] if cell.reason else []
        system = systems.get((cell.spec.get("filesystem") or {}).get("type"), {})
        limit = not system.get("needs_device", True)
        aligned = {trial.stood["aligned"] for trial in mine} - {None}
        said = (text for trial in mine for text in trial.stood["alignment"])
        rows.append(
            Row(
                index=cell.index,
                name=cell.name,
                label=label_of(cell),
                what=cell.what,
                driver=drivers.most_common(1)[0][0] if drivers else None,
                limit=limit,
                reference=_is_reference(cell, info.reference),
                trials=len(mine),
                outcomes=dict(Counter(trial.outcome for trial in mine)),
                suspects=sum(trial.id in doubted for trial in mine),
                excluded=cell.excluded,
                reasons=reasons + [text for text, _ in not_ok.most_common(3)],
                emulated=any(trial.emulated for trial in mine),
                barriers="" if limit else _barriers(cell, system, mine),
                aligned=aligned.pop() if len(aligned) == 1 else None,
                alignment=list(dict.fromkeys(said)),
                places=judge.places(cell.index),
                made=list(dict.fromkeys(trial.made for trial in mine if trial.made)),
                group=names[cell.index][0],
                short=names[cell.index][1],
            )
        )
    return rows


def _names(info: CampaignInfo) -> dict[int, tuple[str, str]]:
    """Cell -> (group, name within it). A reference on some axes compares rows that are equal on all others:
    these are a group. Without a reference, or where it leaves nothing open, there is one group without a
    name."""
    labels = {cell.index: label_of(cell) for cell in info.cells}
    found = {
        index: tuple(
            " · ".join(str(value) for axis, value in label.items() if (axis in info.reference) == inner)
            for inner in (False, True)
        )
        for index, label in labels.items()
    }
    groups = {group for group, _ in found.values()}
    if not info.reference or len(groups) < 2 or len(groups) == len(labels) or "" in groups:
        return {cell.index: ("", cell.name) for cell in info.cells}
    return {index: (group, short) for index, (group, short) in found.items()}


def label_of(cell: Cell) -> dict[str, str]:
    """Axis -> value."""
    return dict(cell.label) if isinstance(cell.label, dict) else {}


def sentence(reason: dict[str, Any] | None) -> str:
    """A reason with its advice."""
    if not reason:
        return ""
    advice = reason.get("advice")
    return f"{reason['message']} ({advice})" if advice else str(reason["message"])


def barrier_note(ranked: list[Row]) -> str:
    """Names the rows without barriers where they are ranked beside others that have them."""
    without = [row for row in ranked if row.barriers]
    if not without or len(without) == len(ranked):
        return ""
    return "without barriers: " + ", ".join(
        row.short if row.barriers in row.short else f"{row.short} ({row.barriers})" for row in without
    )


def problems_of(info: CampaignInfo, trials: list[Trial], rows: list[Row]) -> list[str]:
    """What should be equal and is not: places of all trials, file systems made in the trials of a cell."""
    found = []
    places = {place: None for row in rows for place in row.places}
    if len(places) > 1:
        base, *others = [next(t for t in trials if t.where_hash == place).where for place in places]
        changes = dict.fromkeys(text for other in others for text in _differences(base, other))
        mixed = ", ".join(row.name for row in rows if len(row.places) > 1)
        within = f" (also within {mixed})" if mixed else ""
        found.append(f"trials ran in different places, which are not compared{within}: {'; '.join(changes)}")
    for row in rows:
        if len(row.made) > 1:
            one, *more = [next(t for t in trials if t.made == made).stood["made"] for made in row.made]
            changes = dict.fromkeys(
                text for two in more for a, b in zip(one, two, strict=False) for text in _differences(a, b)
            )
            how = "; ".join(changes) or "not equally many in each trial"
            found.append(f"{row.name}: mkfs made different file systems: {how}")
    return found


def machines_of(trials: list[Trial]) -> list[dict[str, Any]]:
    """Where trials ran, once for each *where*, in order of their first trials."""
    found = {trial.where_hash: trial.where for trial in reversed(trials) if trial.where.get("place")}
    return [
        {key: value for key, value in where.items() if key not in ("boot", "calibration")}
        for where in reversed(found.values())
    ]


def _differences(one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    """Each fact that differs; of a list, what only one of them has."""
    found = []
    for key in sorted((one.keys() | two.keys()) - {"boot", "calibration"}):
        a, b = one.get(key), two.get(key)
        if isinstance(a, list) and isinstance(b, list):
            gone, come = [x for x in a if x not in b], [x for x in b if x not in a]
            found += [f"{key}: {x} only in some" for x in gone + come]
        elif a != b:
            found.append(f"{key}: {a} and {b}")
    return found


def _barriers(cell: Cell, system: dict[str, Any], trials: list[Trial]) -> str:
    """The mark of a row that is measured without barriers: what its mounts say, else what its plan asks."""
    told = {trial.stood.get("barriers") for trial in trials} - {None}
    if not system.get("flushes", True) or NONE in told:
        return "no flushes"
    if told:
        return "barriers off" if OFF in told else ""
    settings = (cell.spec.get("stack") or {}).get("settings") or {}
    off = (cell.spec.get("filesystem") or {}).get("barrier") is False
    return "barriers off" if off or settings.get("write_cache") == _WRITE_THROUGH else ""


def _is_reference(cell: Cell, reference: dict[str, Any]) -> bool:
    label = label_of(cell)
    return bool(reference) and {**label, **reference} == label
