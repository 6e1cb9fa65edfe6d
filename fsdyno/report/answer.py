"""The sentence that answers the plan's question. It claims no more than `stats.leading` found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fsdyno.report.model import Answer, Column, Entry, Row
from fsdyno.report.numbers import ratio_interval, times
from fsdyno.stats import ENOUGH_ROUNDS
from fsdyno.stats.leading import Leading
from fsdyno.stats.ratio import Ratio

_SPEEDS = ("1/s", "B/s", "s")


def answer(
    column: Column, found: Leading[int], rows: Mapping[int, Row], entries: Mapping[int, Entry]
) -> Answer:
    """The answer for a column."""
    text, claimed = _sentence(column, found, rows, entries)
    entry = entries[found.best]
    return Answer(column, text, claimed, rows[found.best].name, entry.ratio, entry.versus, found.rounds)


def summary(answers: Sequence[Answer]) -> list[tuple[str, bool]]:
    """The answers as few sentences: a swept phase in one if the same one leads at all its points."""
    by_phase: dict[tuple[str, str], list[Answer]] = {}
    for one in answers:
        by_phase.setdefault((one.column.phase, one.column.metric), []).append(one)
    sentences: list[tuple[str, bool]] = []
    for group in by_phase.values():
        first = group[0]
        if len(group) == 1 or len({(one.best, one.claimed) for one in group}) > 1:
            sentences += [(one.text, one.claimed) for one in group]
            continue
        ratios = [one.ratio.value for one in group if one.ratio is not None]
        size = (
            f", {min(ratios):.2f} to {max(ratios):.2f}× {_of(first.column, first.versus)}" if ratios else ""
        )
        rounds = min(one.rounds for one in group)
        everywhere, base = f"at all {len(group)} points", f", {_rounds(rounds)}"
        if first.claimed:
            said = f"{first.best} is {_word(first.column)} {everywhere}"
        elif rounds < ENOUGH_ROUNDS:
            said, base = f"{_best(first.column, first.best)} {everywhere}", f"; a pilot of {_rounds(rounds)}"
        else:
            best = _best(first.column, first.best)
            said = f"no clear winner at any of {len(group)} points; by median {best}"
        sentences.append((f"{first.column.phase}: {said}{size}{base}", first.claimed))
    return sentences


def _sentence(
    column: Column, found: Leading[int], rows: Mapping[int, Row], entries: Mapping[int, Entry]
) -> tuple[str, bool]:
    best, entry = rows[found.best].name, entries[found.best]
    if entry.ratio is not None and entry.versus:
        size = _size(column, entry.ratio, entry.versus)
    elif found.ahead is not None and found.runner_up is not None:
        size = _size(column, found.ahead, f"the next, {rows[found.runner_up].name}")
    else:
        return (
            f"{column.title}: {_best(column, best)} by median; no round has another to compare it with",
            False,
        )
    if found.pilot:
        return f"{column.title}: {_best(column, best)}, {size}; a pilot of {_rounds(found.rounds)}", False
    if found.shared:
        names = ", ".join(rows[cell].name for cell in (found.best, *found.shared))
        return f"{column.title}: no clear winner among {names}; {best} {size}, {_rounds(found.rounds)}", False
    return f"{column.title}: {best} is {_word(column)}: {size}, {_rounds(found.rounds)}", True


def _best(column: Column, name: str) -> str:
    """What is seen, not claimed: `ext2 shortest`."""
    return f"{name} {'shortest' if column.unit == 's' else _word(column)}"


def _word(column: Column) -> str:
    if column.unit in _SPEEDS:
        return "fastest"
    return "highest" if column.direction == "higher" else "lowest"


def _size(column: Column, ratio: Ratio, versus: str) -> str:
    """`1.31× ext4 [1.22, 1.40]`; a time says that it is one."""
    return f"{times(ratio)} {_of(column, versus)} {ratio_interval(ratio)}"


def _of(column: Column, versus: str | None) -> str:
    return f"the time of {versus}" if column.unit == "s" else str(versus)


def _rounds(n: int) -> str:
    return f"{n} round" if n == 1 else f"{n} rounds"
