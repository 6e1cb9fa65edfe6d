"""The sentence that answers the plan's question. It claims no more than `stats.leading` found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fsdyno.report.model import Answer, Column, Entry, Row
from fsdyno.report.numbers import ratio_interval, scale_for, times
from fsdyno.stats import ENOUGH_ROUNDS
from fsdyno.stats.leading import Leading
from fsdyno.stats.ratio import Ratio

_SPEEDS = ("1/s", "B/s", "s")
_MOST_COUNTS = 4  # that are told in a sentence; beyond, the last alone stands for the rest


def answer(
    column: Column, found: Leading[int], rows: Mapping[int, Row], entries: Mapping[int, Entry], note: str = ""
) -> Answer:
    """The answer for a column; `note` is what must be said with it."""
    say = _counts if column.counted else _sentence
    text, claimed = say(column, found, rows, entries)
    entry = entries[found.best]
    text += f"; {note}" if note else ""
    best = rows[found.best]
    by_it = bool(best.barriers)
    return Answer(
        column, text, claimed, best.name, entry.ratio, entry.versus, found.rounds, note, pressing=by_it
    )


def told(column: Column, rows: Mapping[int, Row], entries: Mapping[int, Entry]) -> Answer:
    """The answer for a count of which neither more nor less is better: the counts, nobody ahead."""
    ranked = [cell for cell in entries if not rows[cell].limit]
    rounds = min(entries[cell].n for cell in ranked)
    text = f"{_title(column)}: {', '.join(_values(column, ranked, rows, entries))}, {_rounds(rounds)}"
    return Answer(column, text, False, "", None, None, rounds)


def not_judged(column: Column, reasons: Mapping[int, str], rows: Mapping[int, Row]) -> Answer:
    """The answer for a column that cannot be ranked; `reasons` has the cells that keep it from that."""
    why = "; ".join(dict.fromkeys(reasons.values()))
    names = ", ".join(rows[cell].name for cell in reasons)
    text = f"{_title(column)}: not judged, {why} (so with {names})"
    return Answer(column, text, False, "", None, None, 0, unjudged=why)


def summary(answers: Sequence[Answer]) -> list[tuple[str, bool]]:
    """The answers as few sentences: a swept phase in one if the same one leads at all its points, and all
    that is not judged in one for each reason. A note that holds for many is said once, at the end, except
    where it is about the best itself."""
    sentences: list[tuple[str, bool]] = []
    unjudged: dict[str, dict[str, None]] = {}
    for one in answers:
        if one.unjudged:
            unjudged.setdefault(one.unjudged, {})[_subject(one.column)] = None
    for why, phases in unjudged.items():
        sentences.append((f"{', '.join(phases)}: not judged, {why}", False))
    later = dict.fromkeys(one.note for one in answers if one.note and not one.pressing)
    by_phase: dict[tuple[str, str], list[Answer]] = {}
    for one in answers:
        if not one.unjudged:
            by_phase.setdefault((one.column.phase, one.column.metric), []).append(one)
    for group in by_phase.values():
        first = group[0]
        if len(group) == 1 or not first.best or len({(one.best, one.claimed) for one in group}) > 1:
            sentences += [(_without_note(one), one.claimed) for one in group]
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
        note = f"; {first.note}" if first.note and first.pressing else ""
        sentences.append((f"{_subject(first.column)}: {said}{size}{base}{note}", first.claimed))
    sentences += [(f"ranked {note}", False) for note in later]
    return sentences


def _without_note(one: Answer) -> str:
    """Its sentence, without a note that is said at the end for all."""
    return one.text if one.pressing or not one.note else one.text.removesuffix(f"; {one.note}")


def _sentence(
    column: Column, found: Leading[int], rows: Mapping[int, Row], entries: Mapping[int, Entry]
) -> tuple[str, bool]:
    title = _title(column)
    best, entry = rows[found.best].name, entries[found.best]
    if entry.ratio is not None and entry.versus:
        size = _size(column, entry.ratio, entry.versus)
    elif found.runner_up is None:
        return f"{title}: {_best(column, best)} by median; no round has another to compare it with", False
    elif found.ahead is not None:
        size = _size(column, found.ahead, f"the next, {rows[found.runner_up].name}")
    else:
        return f"{title}: {_best(column, best)} by median; no round has another to compare it with", False
    if found.pilot:
        return f"{title}: {_best(column, best)}, {size}; a pilot of {_rounds(found.rounds)}", False
    if found.shared:
        names = ", ".join(rows[cell].name for cell in (found.best, *found.shared))
        return f"{title}: no clear winner among {names}; {best} {size}, {_rounds(found.rounds)}", False
    return f"{title}: {best} is {_word(column)}: {size}, {_rounds(found.rounds)}", True


def _counts(
    column: Column, found: Leading[int], rows: Mapping[int, Row], entries: Mapping[int, Entry]
) -> tuple[str, bool]:
    """Counts are told as they are: they may be 0, and nothing divides by that."""
    ranked = [cell for cell in entries if not rows[cell].limit]
    medians = [entries[cell].median for cell in ranked]
    if min(medians) == max(medians):
        number = scale_for(medians, column.unit).full(medians[0])
        return f"{_title(column)}: {number} for all, {_rounds(found.rounds)}", False
    values = _values(column, ranked, rows, entries)
    if len(values) > _MOST_COUNTS:
        values = [*values[: _MOST_COUNTS - 1], f"… {values[-1]}"]
    text = f"{_title(column)}: {', '.join(values)}"
    if found.pilot:
        return f"{text}; a pilot of {_rounds(found.rounds)}", False
    if len(found.shared) == len(ranked) - 1:
        return f"{text}; none clearly {_word(column)}, {_rounds(found.rounds)}", False
    names = ", ".join(rows[cell].name for cell in (found.best, *found.shared))
    return f"{text}; {_word(column)}: {names}, {_rounds(found.rounds)}", True


def _values(
    column: Column, cells: Sequence[int], rows: Mapping[int, Row], entries: Mapping[int, Entry]
) -> list[str]:
    """Names with their medians, the best first; the lowest first where nothing is better."""
    ranked = sorted(cells, key=lambda cell: entries[cell].median, reverse=column.direction == "higher")
    scale = scale_for([entries[cell].median for cell in ranked], column.unit)
    return [f"{rows[cell].name} {scale.full(entries[cell].median)}" for cell in ranked]


def _subject(column: Column) -> str:
    """The phase, with the metric where it is not the one that the phase is for."""
    return f"{column.phase}, {column.words}" if column.counted else column.phase


def _title(column: Column) -> str:
    """The phase at its point, with the metric where it is not the one that the phase is for."""
    return f"{column.title}, {column.words}" if column.counted else column.title


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
