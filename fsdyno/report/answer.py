"""The sentences that answer the plan's question. They claim no more than `stats.leading` found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from fsdyno.report.model import Answer, Column, Entry, Row, title_of
from fsdyno.report.numbers import ratio_interval, scale_for, times
from fsdyno.stats import ENOUGH_ROUNDS
from fsdyno.stats.leading import Leading
from fsdyno.stats.ratio import Ratio

_SPEEDS = ("1/s", "B/s", "s")
_MOST_COUNTS = 4  # that are told in a sentence; beyond, the last alone stands for the rest

READ = "member_read_per_written"
"""The count that tells whether a stack reads before it writes."""

_HARDLY = 0.01
"""Members that read less than so many bytes per written byte read metadata, not stripes."""


def answer(
    column: Column, found: Leading[int], rows: Mapping[int, Row], entries: Mapping[int, Entry], note: str = ""
) -> Answer:
    """The answer for a column, about the rows in `entries`; `note` is what must be said with it."""
    say = _counts if column.counted else _sentence
    text, claimed = say(column, found, rows, entries)
    entry, best = entries[found.best], rows[found.best]
    ranked = _ranked(rows, entries)
    medians = [entries[cell].median for cell in ranked]
    return Answer(
        column=column,
        text=f"{title_of(column, best.group)}: {text}" + (f"; {note}" if note else ""),
        claimed=claimed,
        best=best.short,
        ratio=entry.ratio,
        versus=_short(entry.versus, rows),
        rounds=found.rounds,
        note=note,
        pressing=bool(best.barriers),
        group=best.group,
        ranked=len(ranked),
        alike=column.counted and (_equal(medians) or _hardly(column, medians)),
    )


def told(column: Column, rows: Mapping[int, Row], entries: Mapping[int, Entry]) -> Answer:
    """The answer for a count of which neither more nor less is better: the counts, nobody ahead."""
    ranked = _ranked(rows, entries)
    rounds = min(entries[cell].n for cell in ranked)
    medians = [entries[cell].median for cell in ranked]
    alike = len(ranked) > 1 and _equal(medians)
    values = _for_all(column, medians) if alike else ", ".join(_values(column, ranked, rows, entries))
    group = rows[ranked[0]].group
    text = f"{title_of(column, group)}: {values}{base(rounds)}"
    return Answer(column, text, False, "", None, None, rounds, group=group, ranked=len(ranked), alike=alike)


def not_judged(column: Column, reasons: Mapping[int, str], rows: Mapping[int, Row]) -> Answer:
    """The answer for a column that cannot be ranked; `reasons` has the cells that keep it from that."""
    why = "; ".join(dict.fromkeys(reasons.values()))
    names = ", ".join(_quoted(rows[cell].short) for cell in reasons)
    group = rows[next(iter(reasons))].group
    text = f"{title_of(column, group)}: not judged, {why} (so with {names})"
    return Answer(column, text, False, "", None, None, 0, unjudged=why, group=group)


def _ranked(rows: Mapping[int, Row], entries: Mapping[int, Entry]) -> list[int]:
    return [cell for cell in entries if not rows[cell].limit]


def _short(name: str | None, rows: Mapping[int, Row]) -> str | None:
    """The reference, which is in the same group, by its name there."""
    return next((row.short for row in rows.values() if row.name == name), name)


def _sentence(
    column: Column, found: Leading[int], rows: Mapping[int, Row], entries: Mapping[int, Entry]
) -> tuple[str, bool]:
    best, entry = rows[found.best].short, entries[found.best]
    if entry.ratio is not None and entry.versus:
        size = _size(column, entry.ratio, str(_short(entry.versus, rows)))
    elif found.runner_up is not None and found.ahead is not None:
        size = _size(column, found.ahead, f"the next, {rows[found.runner_up].short}")
    else:
        return f"{seen(column, best)} by median; no round has another to compare it with", False
    if found.pilot:
        return f"{seen(column, best)}, {size}{base(found.rounds, pilot=True)}", False
    if found.shared:
        names = ", ".join(_quoted(rows[cell].short) for cell in (found.best, *found.shared))
        return f"no clear winner among {names}; {best} {size}{base(found.rounds)}", False
    return f"{best} is {word(column)}: {size}{base(found.rounds)}", True


def _counts(
    column: Column, found: Leading[int], rows: Mapping[int, Row], entries: Mapping[int, Entry]
) -> tuple[str, bool]:
    """Counts are told as they are: they may be 0, and nothing divides by that."""
    ranked = _ranked(rows, entries)
    medians = [entries[cell].median for cell in ranked]
    if _equal(medians):
        return f"{_for_all(column, medians)}{base(found.rounds)}", False
    if _hardly(column, medians):
        return f"under {_HARDLY} for all{base(found.rounds)}", False
    values = _values(column, ranked, rows, entries)
    if len(values) > _MOST_COUNTS:
        values = [*values[: _MOST_COUNTS - 1], f"… {values[-1]}"]
    text = ", ".join(values)
    if found.pilot:
        return f"{text}{base(found.rounds, pilot=True)}", False
    if len(found.shared) == len(ranked) - 1:
        return f"{text}; none clearly {word(column)}{base(found.rounds)}", False
    names = ", ".join(_quoted(rows[cell].short) for cell in (found.best, *found.shared))
    return f"{text}; {word(column)}: {names}{base(found.rounds)}", True


def _equal(medians: Sequence[float]) -> bool:
    return min(medians) == max(medians)


def _for_all(column: Column, medians: Sequence[float]) -> str:
    return f"{scale_for(medians, column.unit).full(medians[0])} for all"


def _hardly(column: Column, medians: Sequence[float]) -> bool:
    return column.metric == READ and max(medians) < _HARDLY


def _values(
    column: Column, cells: Sequence[int], rows: Mapping[int, Row], entries: Mapping[int, Entry]
) -> list[str]:
    """Names with their medians, the best first, the lowest first where nothing is better. Rows of one number
    share it."""
    ranked = sorted(cells, key=lambda cell: entries[cell].median, reverse=column.direction == "higher")
    scale = scale_for([entries[cell].median for cell in ranked], column.unit)
    named = [(_named(column, rows[cell]), scale.full(entries[cell].median)) for cell in ranked]
    if any("," in name for name, _ in named):  # a list of lists would not show where one ends
        alike = groupby(named, key=lambda pair: pair[1])
        return [f"{number} for {' and '.join(name for name, _ in pairs)}" for number, pairs in alike]
    return [f"{name} {number}" for name, number in named]


def _named(column: Column, row: Row) -> str:
    """Its name; where members read, with what the medium says of why they do."""
    off = column.metric == READ and row.aligned is False and "not aligned" not in row.short
    return f"{_quoted(row.short)} (not aligned)" if off else _quoted(row.short)


def _quoted(name: str) -> str:
    """A name that can stand in a list."""
    return f"“{name}”" if "," in name else name


def seen(column: Column, name: str) -> str:
    """What is seen, not claimed: `ext2 shortest`."""
    return f"{name} {'shortest' if column.unit == 's' else word(column)}"


def word(column: Column) -> str:
    """What the best of a column is."""
    if column.unit in _SPEEDS:
        return "fastest"
    return "highest" if column.direction == "higher" else "lowest"


def base(rounds: int, *, pilot: bool = False) -> str:
    """What a sentence rests on, as it ends: `, 6 rounds`, `; a pilot of 1 round`."""
    number = f"{rounds} round" if rounds == 1 else f"{rounds} rounds"
    return f"; a pilot of {number}" if pilot and rounds < ENOUGH_ROUNDS else f", {number}"


def _size(column: Column, ratio: Ratio, versus: str) -> str:
    """`1.31× ext4 [1.22, 1.40]`; a time says that it is one."""
    size = f"{times(ratio)} {of(column, versus)}"
    return size if ratio.low is None else f"{size} {ratio_interval(ratio)}"


def of(column: Column, versus: str | None) -> str:
    """What a ratio is to."""
    return f"the time of {versus}" if column.unit == "s" else str(versus)
