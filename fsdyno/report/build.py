"""From a store to a `Report`: asks the store for numbers and `stats` for what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fsdyno.errors import Exit, UserError, nearest
from fsdyno.report.answer import answer, not_judged, told
from fsdyno.report.judge import Judge
from fsdyno.report.model import Answer, Column, Doubt, Entry, Missing, Report, Row
from fsdyno.report.rows import barrier_note, label_of, machines_of, problems_of, rows_of, sentence
from fsdyno.store import CampaignInfo, Cell, PhaseNote, Quantity, Store, Trial, canonical

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Depth = Literal["headline", "all", "deep"]


def headline(kind: str, load: str | None) -> str:
    """The metric that a phase is first judged by."""
    if kind == "workload" and load in ("tree", "random"):
        return "operations_per_second"
    if kind == "workload" and load == "stream":
        return "bytes_per_second"
    return "wall_seconds"


def build(
    store: Store,
    campaign: str | None = None,
    *,
    depth: Depth = "headline",
    phase: str | None = None,
    metric: str | None = None,
) -> Report:
    """The report of a campaign (id or prefix; the latest if None).

    `headline`: the metric that each phase is judged by. `all`: every metric. `deep`: also what only the
    events hold (latencies, traces, tools, kernel log). `phase` and `metric` narrow it. Raises
    `UserError`: `Exit.STORE`, or `Exit.USAGE` for a phase or metric that the campaign does not have.
    """
    with store.snapshot():  # a campaign may be writing to it
        return _build(store, campaign, depth, phase, metric)


def _build(store: Store, campaign: str | None, depth: Depth, phase: str | None, metric: str | None) -> Report:
    info = store.campaign(campaign)
    trials = store.trials(info.id)
    notes = store.phase_notes(info.id)
    judge = Judge(store, info, trials)
    quantities = _load(store, info, judge, depth, phase, metric)
    rows = rows_of(info, trials, notes, judge)
    columns, entries, answers = _columns(info, judge, trials, notes, quantities, rows)
    report = Report(
        store=str(store.path),
        id=info.id,
        name=info.name,
        question=info.question,
        status=info.status,
        source=info.source,
        origin=info.origin,
        plan_text=info.plan_text,
        version=info.version,
        seed=info.seed,
        started=info.started,
        ended=info.ended,
        rounds=info.rounds,
        complete_rounds=len(store.complete_rounds(info.id)),
        reference=info.reference,
        where=info.where,
        where_hash=info.where_hash,
        hello=info.hello,
        survey=info.survey,
        definitions={name: m.definition for name, m in info.metrics.items()},
        rows=rows,
        columns=columns,
        entries=entries,
        answers=answers,
        doubts=_doubts(trials, notes),
        tool_share=_tool_share(store, info),
        on_files=any("file" in d for c in info.cells for d in c.spec.get("stack", {}).get("devices", [])),
        problems=problems_of(info, trials, rows),
        missing=_missing(notes),
        machines=machines_of(trials),
    )
    if depth == "deep":
        from fsdyno.report.deep import deepen

        deepen(store, report, trials)
    return report


def _load(
    store: Store, info: CampaignInfo, judge: Judge, depth: Depth, phase: str | None, metric: str | None
) -> list[Quantity]:
    """The samples that are wanted, in order of phases and points."""
    known = store.quantities(info.id)
    _assert_known("phase", phase, [q[0] for q in known])
    _assert_known("metric", metric, [q[4] for q in known if q[4] in info.metrics])
    wanted: dict[str, set[str]] = {}
    for name, kind, load, point, found, _ in known:
        if found not in info.metrics or (phase is not None and name != phase):
            continue
        chosen = found == metric if metric else depth != "headline" or found == headline(kind, load)
        if chosen or (metric is None and judge.counted(found, name, kind, point)):
            wanted.setdefault(found, set()).add(name)
    quantities = [
        q for m, phases in wanted.items() for q in store.samples(info.id, metrics=[m], phases=phases)
    ]
    first: dict[str, int] = {}
    for q in quantities:  # a swept phase stands where its first copy ran
        first[q.phase] = min(first.get(q.phase, q.ordinal), q.ordinal)
    order = {point: i for i, point in enumerate(point_names(info))}
    names = list(info.metrics)
    return sorted(
        quantities,
        key=lambda q: (
            first[q.phase],
            order.get(canonical(q.point), len(order)),
            _natural(q.point),
            q.metric != headline(q.kind, q.load),
            names.index(q.metric),
        ),
    )


def _assert_known(what: str, name: str | None, known: list[str]) -> None:
    if name is None or name in known:
        return
    words = list(dict.fromkeys(known))
    close = nearest(name, words)
    raise UserError(
        f"the campaign has no {what} {name!r}",
        code=Exit.USAGE,
        where=f"--{what}",
        advice=f"did you mean {close!r}?" if close else f"it has: {', '.join(words)}",
    )


def point_names(info: CampaignInfo) -> dict[str, str]:
    """Sweep points as events carry them (canonical JSON) -> name, in the plan's order.

    A stored spec has its swept phases once per point, in that order; the campaign has the labels.
    """
    wire: dict[str, dict[str, Any]] = {}
    for cell in info.cells:
        for phase in cell.spec.get("phases", []):
            if phase.get("point"):
                wire.setdefault(canonical(phase["point"]), phase["point"])
    labels = info.points if len(info.points) == len(wire) else list(wire.values())
    return {point: point_name(label) for point, label in zip(wire, labels, strict=True)}


def _natural(point: dict[str, Any]) -> list[tuple[str, float, str]]:
    return [
        (key, float(value) if isinstance(value, int | float) else 0.0, str(value))
        for key, value in sorted(point.items())
    ]


def point_name(point: dict[str, Any]) -> str:
    """`threads=8`: the last word of each path is enough."""
    return ", ".join(f"{key.rsplit('.', 1)[-1]}={value}" for key, value in sorted(point.items()))


def _reference_of(cell: Cell, info: CampaignInfo) -> Cell | None:
    label = label_of(cell)
    wanted = {**label, **info.reference}
    if not info.reference or wanted == label:
        return None
    return next((other for other in info.cells if label_of(other) == wanted), None)


def _columns(
    info: CampaignInfo,
    judge: Judge,
    trials: list[Trial],
    notes: list[PhaseNote],
    quantities: list[Quantity],
    rows: list[Row],
) -> tuple[list[Column], list[Entry], list[Answer]]:
    from fsdyno.stats.leading import leading

    ids = {trial.n: trial.id for trial in trials}
    flagged = {trial.id for trial in trials if trial.flags}
    noted = {(note.trial, note.phase, canonical(note.point)) for note in notes if note.flags}
    versus = {cell.index: _reference_of(cell, info) for cell in info.cells}
    by_index = {row.index: row for row in rows}
    names_of_points = point_names(info)
    columns: list[Column] = []
    entries: list[Entry] = []
    answers: list[Answer] = []
    for q in quantities:
        metric = info.metrics[q.metric]
        is_headline = q.metric == headline(q.kind, q.load)
        point = canonical(q.point)
        name = names_of_points.get(point) or point_name(q.point)
        unit, better = metric.unit, metric.direction
        counted = not is_headline and judge.counted(q.metric, q.phase, q.kind, q.point)
        column = Column(q.phase, q.kind, q.load, q.point, name, q.metric, unit, better, is_headline, counted)
        groups = _by_cell(q)
        here: dict[int, Entry] = {}
        for row in rows:
            if row.index not in groups:
                continue
            rounds, values, numbers = groups[row.index]
            names = [ids[int(n)] for n in numbers]
            doubts = [name in flagged or (name, q.phase, point) in noted for name in names]
            other = versus[row.index]
            why = judge.why_not_compared(column, row.index, row.index if other is None else other.index)
            here[row.index] = _entry(column, row.index, rounds, values, names, doubts, other, groups, why)
        columns.append(column)
        entries.extend(here.values())
        for group in dict.fromkeys(by_index[i].group for i in here):
            mine = {i: entry for i, entry in here.items() if by_index[i].group == group}
            ranked = {i: (groups[i][0], groups[i][1]) for i in mine if not by_index[i].limit}
            telling = better == "neither" and counted and bool(ranked)
            if not telling and (len(ranked) < 2 or better == "neither"):
                continue
            reasons = judge.why_not_ranked(column, list(ranked))
            if reasons:
                answers.append(not_judged(column, reasons, by_index))
                continue
            if telling:
                answers.append(told(column, by_index, mine))
                continue
            found = leading(ranked, column.direction)
            if found is not None:
                note = barrier_note([by_index[i] for i in ranked])
                answers.append(answer(column, found, by_index, mine, note))
    return columns, entries, answers


def _by_cell(
    q: Quantity,
) -> dict[int, tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]]:
    """Cell -> (rounds, values, trial numbers), each in order of rounds."""
    import numpy as np

    order = np.lexsort((q.trials, q.rounds, q.cells))
    cells = q.cells[order]
    starts = np.flatnonzero(np.r_[True, cells[1:] != cells[:-1]])
    groups = {}
    for start, end in zip(starts, [*starts[1:], len(cells)], strict=True):
        mine = order[start:end]
        groups[int(cells[start])] = (q.rounds[mine], q.values[mine], q.trials[mine])
    return groups


def _entry(
    column: Column,
    cell: int,
    rounds: NDArray[np.int64],
    values: NDArray[np.float64],
    trials: list[str],
    suspect: list[bool],
    reference: Cell | None,
    groups: dict[int, tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]],
    unjudged: str | None,
) -> Entry:
    from fsdyno.stats.median import median
    from fsdyno.stats.ratio import paired, ratio

    middle = median(values)
    effect = None
    if unjudged is None and reference is not None and reference.index in groups:
        theirs = groups[reference.index]
        effect = ratio(*paired(rounds, values, theirs[0], theirs[1]))
    return Entry(
        column=column,
        cell=cell,
        n=middle.n,
        median=middle.value,
        low=middle.low,
        high=middle.high,
        coverage=middle.coverage,
        versus=reference.name if reference is not None else None,
        ratio=effect,
        values=values.tolist(),
        rounds=rounds.tolist(),
        trials=trials,
        suspect=suspect,
        unjudged=unjudged,
    )


def _missing(notes: list[PhaseNote]) -> list[Missing]:
    """Each phase that a cell did not do well, with what it said first."""
    found: dict[tuple[int, str, str], Missing] = {}
    for note in notes:
        if note.outcome != "ok":
            key = (note.cell, note.phase, canonical(note.point))
            said = Missing(note.phase, note.point, note.cell, note.outcome, sentence(note.reason))
            found.setdefault(key, said)
    return list(found.values())


def _doubts(trials: list[Trial], notes: list[PhaseNote]) -> list[Doubt]:
    """Doubts by kind, the commonest first."""
    seen: dict[str, tuple[set[str], dict[str, None], str]] = {}
    met = [(note.trial, note.phase, flag) for note in notes for flag in note.flags]
    met += [(trial.id, "", flag) for trial in trials for flag in trial.flags]
    for trial, phase, flag in met:
        ids, phases, _ = seen.setdefault(flag["doubt"], (set(), {}, flag["reason"]))
        ids.add(trial)
        if phase:
            phases[phase] = None
    found = [Doubt(kind, len(ids), list(phases), reason) for kind, (ids, phases, reason) in seen.items()]
    return sorted(found, key=lambda d: -d.trials)


def _tool_share(store: Store, info: CampaignInfo) -> dict[str, float]:
    """Phase -> fsdyno's own share of the time: the largest median over cells and points."""
    from fsdyno.stats.median import median

    shares: dict[str, float] = {}
    if "tool_share" in info.metrics:
        for q in store.samples(info.id, metrics=["tool_share"]):
            for _, values, _ in _by_cell(q).values():
                shares[q.phase] = max(shares.get(q.phase, 0.0), median(values).value)
    return shares
