"""All answers as few sentences: those that answer the question first, one count for each phase, and what
holds for many said once. The tables have the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from fsdyno.report.answer import READ, base, of, seen, word
from fsdyno.report.model import Answer, Report
from fsdyno.stats import ENOUGH_ROUNDS

_ANSWERED = ("workload", "mkfs", "check")  # kinds of phases that a sentence is worth
_MOST = 8

ALWAYS = ("flushes_per_fsync", READ)
"""Counts that are told of every phase that has them."""

Sentence = tuple[str, bool]
"""A sentence, and whether it claims something."""

_T = TypeVar("_T")
_K = TypeVar("_K")


def sentences(report: Report, *, everything: bool = False) -> list[Sentence]:
    """What a report says first. With `everything` each answer that it has, for a report that was narrowed
    to some."""
    if everything:
        return summary(report.answers)
    return summary(_chosen(report), most=_MOST)


def _chosen(report: Report) -> list[Answer]:
    """The answers that are worth a sentence: the headline of each phase, the counts that always are, and
    where times are not judged the count that differs most."""
    shown = [a for a in report.answers if a.column.kind in _ANSWERED]
    found: list[Answer] = []
    for mine in _by(shown, lambda a: a.column.phase).values():
        telling = {a.column.metric for a in mine if a.column.counted and a.column.metric in ALWAYS}
        if not telling and any(a.column.headline and a.unjudged for a in mine):
            counts = _by([a for a in mine if a.column.counted], lambda a: a.column.metric)
            telling = set(sorted(counts, key=lambda m: _range(report, counts[m]), reverse=True)[:1])
        found += [a for a in mine if a.column.headline or a.column.metric in telling]
    return found


def _range(report: Report, answers: Sequence[Answer]) -> float:
    """How far apart the medians of a count are, as a share of the largest, at most."""
    ranges = [0.0]
    for one in answers:
        medians = [
            e.median for row, e in report.of(one.column) if row.group == one.group and not row.limit
        ] or [0.0]
        ranges.append((max(medians) - min(medians)) / (max(medians) or 1.0))
    return max(ranges)


def summary(answers: Sequence[Answer], *, most: int | None = None) -> list[Sentence]:
    """The answers as sentences: the workloads' first, and those first that tell rows apart.

    A swept phase is told in one if the same one leads at all its points, groups of rows in one if they have
    the same best or are small, and all that is not judged in one for each reason. A note that holds for many
    is said once, at the end, except where it is about the best itself. Beyond `most` comparisons the others
    are only counted.
    """
    unjudged = [a for a in answers if a.unjudged]
    partly = {a.subject for a in unjudged}
    judged = sorted(
        (a for a in answers if not a.unjudged),
        key=lambda a: (a.column.kind != "workload", a.alike, a.subject in partly),
    )
    said: list[Sentence] = []
    for group in _by(judged, lambda a: (a.column.phase, a.column.metric)).values():
        parts = _by(group, lambda a: a.group)
        together = _in_all_groups(group, len(parts)) if len(parts) > 1 else None
        if together:
            said.append(together)
            continue
        for part in parts.values():
            said += _over_points(part)
    if most is not None and len(said) > most:
        said[most:] = [(f"{len(said) - most} more comparisons: see the tables, or --phase for one", False)]
    for why, mine in _by(unjudged, lambda a: str(a.unjudged)).items():
        subjects = [_but(subject, judged) for subject in _by(mine, lambda a: a.subject)]
        said.append((f"{', '.join(subjects)}: not judged, {why}", False))
    notes = dict.fromkeys(a.note for a in judged if a.note and not a.pressing)
    return said + [(f"ranked {note}", False) for note in notes]


def _but(subject: str, judged: Sequence[Answer]) -> str:
    """What is not judged, with the groups of rows where it is."""
    groups = ", ".join(dict.fromkeys(a.group for a in judged if a.subject == subject and a.group))
    return f"{subject} (but for {groups})" if groups else subject


def _over_points(group: Sequence[Answer]) -> list[Sentence]:
    """The answers of a phase over the points of its sweep."""
    first = group[0]
    if len(group) == 1 or not first.best or len({(one.best, one.claimed) for one in group}) > 1:
        return [(_without_note(one), one.claimed) for one in group]
    where = f"at all {len(group)} points"
    return [_one_best(f"{first.subject}{f', {first.group}' if first.group else ''}", group, where)]


def _in_all_groups(group: Sequence[Answer], groups: int) -> Sentence | None:
    """One sentence about several groups of rows, or None if they are better told one by one."""
    first = group[0]
    bodies = {_body(one) for one in group}
    rounds = min(group, key=lambda one: one.rounds).rounds
    end = base(rounds, pilot=not first.claimed and bool(first.best))
    points = len({one.column.title for one in group})
    where = f"in all {groups} groups" if points == 1 else f"at all {points} points in all {groups} groups"
    if len(group) == groups and len(bodies) == 1 and first.column.counted:
        return f"{first.subject}: {bodies.pop()}, {where}{end}", all(one.claimed for one in group)
    uniform = len({(one.best, one.claimed) for one in group}) == 1
    if uniform and first.best and not first.column.counted:
        return _one_best(first.subject, group, where)
    if len(group) == groups and max(one.ranked for one in group) <= 2:
        each = "; ".join(f"{one.group}: {_body(one)}" for one in group)
        return f"{first.subject}: {each}{end}", all(one.claimed for one in group)
    return None


def _one_best(subject: str, group: Sequence[Answer], where: str) -> Sentence:
    """The same one is the best of many."""
    first = group[0]
    ratios = [one.ratio.value for one in group if one.ratio is not None]
    size = f", {min(ratios):.2f} to {max(ratios):.2f}× {of(first.column, first.versus)}" if ratios else ""
    rounds = min(one.rounds for one in group)
    end = base(rounds)
    if first.claimed:
        said = f"{first.best} is {word(first.column)} {where}"
    elif rounds < ENOUGH_ROUNDS:
        said, end = f"{seen(first.column, first.best)} {where}", base(rounds, pilot=True)
    else:
        anywhere = where.replace("at all", "at any of").replace("in all", "in any of")
        said = f"no clear winner {anywhere}; by median {seen(first.column, first.best)}"
    note = f"; {first.note}" if first.note and first.pressing else ""
    return f"{subject}: {said}{size}{end}{note}", first.claimed


def _without_note(one: Answer) -> str:
    """Its sentence, without a note that is said at the end for all."""
    return one.text if one.pressing or not one.note else one.text.removesuffix(f"; {one.note}")


def _body(one: Answer) -> str:
    """Its sentence, without what it is about, what it rests on and what must be said with it."""
    text = one.text.removeprefix(f"{one.title}: ").removesuffix(f"; {one.note}")
    return text.removesuffix(base(one.rounds)).removesuffix(base(one.rounds, pilot=True))


def _by(items: Sequence[_T], key: Callable[[_T], _K]) -> dict[_K, list[_T]]:
    """The items by a key, in order."""
    found: dict[_K, list[_T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found
