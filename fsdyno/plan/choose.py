"""Rules that pick combinations by their labels: `exclude` and `[reference]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fsdyno.plan.matrix import flat, label_of, labels_of
from fsdyno.plan.model import Axis, Value
from fsdyno.plan.problems import Path, Problem, unknown
from fsdyno.units import quote

Combination = tuple[Value, ...]


class Exclusion:
    """The plan's `exclude`: rules over axes of the matrix remove cells, over axes of the sweep points."""

    def __init__(
        self, given: Any, axes: Sequence[Axis], sweep: Sequence[Axis], problems: list[Problem]
    ) -> None:
        self.problems = problems
        self.rules: list[tuple[Path, dict[str, list[str]]]] = []
        if not isinstance(given, list) or not all(isinstance(one, Mapping) for one in given):
            self._note(("exclude",), "expected a list of tables { axis = label, … }")
            return
        for index, rule in enumerate(given):
            place: Path = ("exclude", index)
            wanted = labels(rule, [*axes, *sweep], place, problems)
            if wanted is None:
                continue
            outer = [axis.key for axis in axes if axis.key in wanted]
            if not wanted:
                self._note(place, "is empty and would remove everything")
            elif 0 < len(outer) < len(wanted):
                self._note(place, "mixes axes of [matrix] and [sweep]; every trial runs the same points")
            else:
                self.rules.append((place, wanted))

    def of(self, axes: Sequence[Axis], combinations: Sequence[Combination], what: str) -> list[Combination]:
        """What remains of the combinations of these axes; `what` they are: cell or point."""
        keys = {axis.key for axis in axes}
        kept, hits = list(combinations), 0
        for place, wanted in self.rules:
            if not wanted.keys() <= keys:
                continue
            left = [c for c in kept if not _fits(wanted, labels_of(axes, c))]
            hits += len(kept) - len(left)
            if len(left) == len(kept):
                self._note(place, f"removes no {what}: none (any more) has all these labels")
            kept = left
        if hits and not kept:
            self._note(("exclude",), f"removes every {what}; nothing would be measured")
            return list(combinations)
        return kept

    def _note(self, path: Path, message: str) -> None:
        self.problems.append(Problem(path, "structure", message))


def _fits(wanted: Mapping[str, Sequence[str]], label: Mapping[str, str]) -> bool:
    return all(label[key] in words for key, words in wanted.items())


def reference(
    given: Any,
    axes: Sequence[Axis],
    sweep: Sequence[Axis],
    combinations: Sequence[Combination],
    problems: list[Problem],
) -> dict[str, str]:
    """Matrix axis -> label as `[reference]` has it."""
    if isinstance(given, Mapping):
        for key, _ in flat(given, list(given)):
            if ".".join(key) in [axis.key for axis in sweep]:
                text = "is an axis of [sweep]; cells are compared point by point, so name axes of [matrix]"
                problems.append(Problem(("reference", *key), "structure", text))
                return {}
    picked = labels(given, axes, ("reference",), problems)
    if picked is None:
        return {}
    for axis, words in picked.items():
        if len(words) != 1:
            problems.append(Problem(("reference", axis), "structure", "expected one label"))
            return {}
    chosen = {axis: words[0] for axis, words in picked.items()}
    if chosen and not any(chosen.items() <= labels_of(axes, c).items() for c in combinations):
        problems.append(Problem(("reference",), "structure", "is excluded: no cell has all these labels"))
    return chosen


def labels(
    given: Any, axes: Sequence[Axis], path: Path, problems: list[Problem]
) -> dict[str, list[str]] | None:
    """Axis -> labels, as written: one or a list of them. None if anything in it is wrong."""
    if not isinstance(given, Mapping):
        problems.append(Problem(path, "structure", "expected a table { axis = label, … }"))
        return None
    by_key = {axis.key: axis for axis in axes}
    picked: dict[str, list[str]] = {}
    before = len(problems)
    for key, value in flat(given, list(given)):
        name, place = ".".join(key), (*path, *key)
        if name not in by_key:
            problems.append(Problem(place, "unknown", unknown(name, list(by_key), "axis")))
            continue
        known = by_key[name].labels
        words = [label_of(one) for one in value] if isinstance(value, list) else [label_of(value)]
        for word in words:
            if word not in known:
                problems.append(Problem(place, "unknown", unknown(word, known, f"label {quote(word)}")))
        picked[name] = words
    return picked if len(problems) == before else None
