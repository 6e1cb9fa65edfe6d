"""Axes: what varies between trials (`[matrix]`) and inside one (`[sweep]`), read from the plan.

A value is a setting at the axis' own path, or a bundle: a table with a name whose other keys are
paths from the top of the trial.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fsdyno.plan.model import Axis, Value
from fsdyno.plan.problems import Path, Problem
from fsdyno.units import quote

MOST_VALUES = 1000
"""Values of one axis."""


class Axes:
    """Reads the axes of one table of the plan."""

    def __init__(self, table: str, problems: list[Problem]) -> None:
        self.table = table
        self.problems = problems

    def read(self, given: Any, reserved: Sequence[str] = ()) -> tuple[Axis, ...]:
        """The axes of the table; problems are noted."""
        if not isinstance(given, Mapping):
            self.note((self.table,), f"expected a table of axes, not {quote(given)}")
            return ()
        keys = [key for key in given if key not in reserved]
        if not keys:
            self.note((self.table,), f"is empty: write an axis with its values, or leave [{self.table}] out")
        if "exclude" in keys:
            keys.remove("exclude")
            self.note(
                (self.table, "exclude"), "belongs to the top of the plan, before [trial], or as [[exclude]]"
            )
        axes = []
        for key, value in flat(given, keys):
            axis = self._axis(key, value, (self.table, *key))
            if axis is not None:
                axes.append(axis)
        return tuple(axes)

    def _axis(self, key: tuple[str, ...], given: Any, path: Path) -> Axis | None:
        if not isinstance(given, list):
            self.note(path, f"expected a list of values, not {quote(given)}; write [{quote(given)}]")
            return None
        if not given:
            self.note(path, "has no values: write at least one, or leave the axis out")
            return None
        if len(given) > MOST_VALUES:
            self.note(path, f"has {len(given)} values; at most {MOST_VALUES}")
            return None
        values = []
        for index, one in enumerate(given):
            value = self._value(key, one, (*path, index))
            if value is not None:
                values.append(value)
        labels = [value.label for value in values]
        for index, label in enumerate(labels):
            if label in labels[:index]:
                self.note((*path, index), f'the label "{label}" is there twice; give each value its own name')
        return Axis(".".join(key), tuple(values)) if values else None

    def _value(self, key: tuple[str, ...], given: Any, path: Path) -> Value | None:
        steps = tuple(step for part in key for step in part.split("."))
        if isinstance(given, list):
            self.note(
                path, "a list as a value needs a name: write { name = …, " + ".".join(key) + " = [ … ] }"
            )
            return None
        if not isinstance(given, Mapping):
            return Value(label_of(given), given, ((steps, given, path),), bundle=False)
        if "name" not in given:
            if not given:
                self.note(path, "is an empty table")
                return None
            label = " ".join(f"{'.'.join(k)}={label_of(v)}" for k, v, _ in _leaves(given, path))
            return Value(label, label, ((steps, dict(given), path),), bundle=False)
        name = given["name"]
        if not isinstance(name, str | int | float) or name == "":
            self.note((*path, "name"), f"expected a word, a number, true or false, not {quote(name)}")
            return None
        rest = {k: v for k, v in given.items() if k != "name"}
        settings = tuple((inner, value, where) for inner, value, where in _leaves(rest, path))
        return Value(label_of(name), name, settings, bundle=True)

    def note(self, path: Path, message: str) -> None:
        """Notes a mistake in the plan's structure."""
        self.problems.append(Problem(path, "structure", message))


def label_of(value: Any) -> str:
    """A value as people wrote it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{value}"


def flat(given: Mapping[str, Any], keys: Sequence[str]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Axes by path, also where the plan wrote a path without quotes (TOML then makes tables of it)."""
    for key in keys:
        value = given[key]
        if isinstance(value, Mapping) and value:
            for rest, inner in flat(value, list(value)):
                yield (key, *rest), inner
        else:
            yield (key,), value


def _leaves(table: Mapping[str, Any], path: Path) -> Iterator[tuple[tuple[str, ...], Any, Path]]:
    """Steps, value and place of everything that a table sets."""
    for key, value in table.items():
        steps = tuple(key.split("."))
        if isinstance(value, Mapping) and value:
            for rest, inner, where in _leaves(value, (*path, key)):
                yield (*steps, *rest), inner, where
        else:
            yield steps, value, (*path, key)


def product(axes: Sequence[Axis]) -> list[tuple[Value, ...]]:
    """All combinations; the first axis varies slowest."""
    return list(itertools.product(*(axis.values for axis in axes)))


def labels_of(axes: Sequence[Axis], values: Sequence[Value]) -> dict[str, str]:
    """Axis -> label of one combination."""
    return {axis.key: value.label for axis, value in zip(axes, values, strict=True)}


def name_of(values: Sequence[Value]) -> str:
    """A short name for people."""
    return " · ".join(value.label for value in values)
