"""From axes to cells: every combination's values are set into the trial, and the result is checked.

A mistake is told once, where the plan wrote the value, not once for each of the cells it spoils.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fsdyno.plan.checks import Tables, check_course
from fsdyno.plan.matrix import labels_of, name_of
from fsdyno.plan.model import Axis, Cell, Point, Spec, Value, configuration
from fsdyno.plan.paths import UnplacedError, merge, phase_label, place
from fsdyno.plan.problems import Path, Problem, unknown
from fsdyno.plan.schema import Walker
from fsdyno.units import quote


@dataclass
class Draft:
    """A trial while values are set into it, with where each value is written in the plan."""

    tree: dict[str, Any]
    sources: dict[Path, Path] = field(default_factory=dict)

    def source(self, path: Path) -> Path:
        """Where the plan wrote what stands at a path of the trial."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.sources:
                return (*self.sources[path[:end]], *path[end:])
        return ("trial", *path)

    def record(self, path: Path, setting: Any, source: Path, walker: Walker) -> None:
        """Remembers where a value is written: for a table each key of it, as only those are set."""
        if isinstance(setting, dict) and setting:
            for key, inner in setting.items():
                self.record((*path, key), inner, (*source, key), walker)
            return
        select = (walker.find(path) or {}).get("x-select")
        if select is not None and isinstance(setting, str):
            path = (*path, select)
        for old in [p for p in self.sources if p[: len(path)] == path]:
            del self.sources[old]
        self.sources[path] = source


class Builder:
    """Builds the cells of one plan."""

    def __init__(self, schema: dict[str, Any], tables: Tables, trial: dict[str, Any], where: str) -> None:
        self.schema = _as_written(schema)
        self.tables = tables
        self.trial = trial
        self.where = where  # the plan's `place`
        self.walker = Walker(self.schema)
        self.phase_schema = self.walker.find(["phases", 0]) or {}
        self.found: dict[Problem, list[str]] = {}  # problem -> names of the cells that have it
        self.names: list[str] = []

    def build(
        self,
        axes: Sequence[Axis],
        combinations: Sequence[tuple[Value, ...]],
        sweep: Sequence[Axis],
        settings: Sequence[tuple[Value, ...]],
        repeat: Any,
    ) -> tuple[list[Cell], list[Point]]:
        """Cells and points; problems are collected for `problems`."""
        points = [Point(i, labels_of(sweep, values), name_of(values)) for i, values in enumerate(settings)]
        self.names = [name_of(values) or "the trial" for values in combinations]
        cells = []
        for index, values in enumerate(combinations):
            draft = self._set(Draft(self.trial), axes, values, self.names[index])
            cell = self._cell(index, draft, sweep, settings, repeat)
            cells.append(replace(cell, label=labels_of(axes, values)))
        return cells, points

    def problems(self) -> list[Problem]:
        """What was found, each once, with the cells concerned where it is not all."""
        told = []
        for problem, names in self.found.items():
            names = list(dict.fromkeys(names))
            if 0 < len(names) < len(self.names):
                more = f" and {len(names) - 2} more" if len(names) > 2 else ""
                where = f" (in cell {', '.join(quote(name) for name in names[:2])}{more})"
                problem = replace(problem, message=problem.message + where)
            told.append(problem)
        return told

    def _note(self, problem: Problem, cell: str) -> None:
        self.found.setdefault(problem, []).append(cell)

    # ---- setting values -------------------------------------------------------------------------

    def _set(self, draft: Draft, axes: Sequence[Axis], values: Sequence[Value], cell: str) -> Draft:
        draft = Draft(draft.tree, dict(draft.sources))
        for axis, value in zip(axes, values, strict=True):
            for steps, setting, source in value.settings:
                try:
                    path = place(self.walker, draft.tree, steps)
                except UnplacedError as lost:
                    where, message = (source, self._advise(axis, value, steps, str(lost)))
                    if not value.bundle:
                        where = source[:-1]
                    self._note(Problem(where, lost.kind, message), cell)
                    continue
                draft.tree = merge(self.walker, draft.tree, path, setting, self.walker.root)
                draft.record(path, setting, source, self.walker)
        return draft

    def _advise(self, axis: Axis, value: Value, steps: Sequence[str], message: str) -> str:
        """A bundle's keys are often written from the axis' own path; say so where that would fit."""
        if value.bundle and steps[0] != axis.key.split(".")[0]:
            try:
                place(self.walker, self.trial, (*axis.key.split("."), *steps))
            except UnplacedError:
                return message
            return f'{message}; keys of a bundle start at the trial: write "{axis.key}.{".".join(steps)}"'
        return message

    # ---- checking -------------------------------------------------------------------------------

    def _cell(
        self,
        index: int,
        draft: Draft,
        sweep: Sequence[Axis],
        settings: Sequence[tuple[Value, ...]],
        repeat: Any,
    ) -> Cell:
        name = self.names[index]
        if not sweep:
            spec, sound = self._resolve(draft, name)
            if sound:
                self._course(draft, spec, list(range(len(spec["phases"]))), name)
            return Cell(index, {}, name, spec, (0, 0), (), configuration(spec, (0, 0), ()))
        span = self._span(draft, sweep, repeat, name)
        swept: list[tuple[Spec, ...]] = []
        first: Spec = {}
        whole = True
        for values in settings:
            inner = self._set(draft, sweep, values, name)
            spec, sound = self._resolve(inner, name)
            whole &= sound
            first = first or spec
            labels = {a.key: self._wire(a, v, inner, spec) for a, v in zip(sweep, values, strict=True)}
            phases = spec.get("phases", [])[span[0] : span[1]]
            swept.append(tuple({**phase, "point": labels} for phase in phases))
        cell = Cell(index, {}, name, first, span, tuple(swept), configuration(first, span, swept))
        if whole:
            flat = cell.expand(range(len(swept)))
            width = span[1] - span[0]
            origins = [
                *range(span[0]),
                *(span[0] + i % width for i in range(width * len(swept))),
                *range(span[1], len(first["phases"])),
            ]
            self._course(draft, flat, origins, name)
        return cell

    def _wire(self, axis: Axis, value: Value, draft: Draft, spec: Spec) -> Any:
        """What identifies a value in events: the resolved number, or the bundle's name."""
        if value.bundle or len(value.settings) != 1:
            return value.wire
        try:
            found: Any = spec
            for step in place(self.walker, draft.tree, value.settings[0][0]):
                found = found[step]
        except (UnplacedError, KeyError, IndexError, TypeError):
            return value.wire  # a mistake that has been noted
        return found if isinstance(found, str | int | float | bool) else value.wire

    def _resolve(self, draft: Draft, cell: str) -> tuple[Spec, bool]:
        walker = Walker(self.schema)
        spec = walker.check(draft.tree)
        for problem in walker.problems:
            self._note(replace(problem, path=draft.source(problem.path)), cell)
        sound = not walker.problems
        seen: dict[str, int] = {}
        for number, phase in enumerate(spec.get("phases", ()) if isinstance(spec, dict) else ()):
            label = phase_label(phase, self.phase_schema)
            if label is not None and label in seen:
                text = f'phase {seen[label]} is called "{label}" too; give each a name of its own'
                self._note(Problem(draft.source(("phases", number)), "structure", text), cell)
                sound = False
            if label is not None:
                seen.setdefault(label, number)
        return spec, sound

    def _course(self, draft: Draft, flat: Spec, origins: Sequence[int], cell: str) -> None:
        for problem in check_course(flat, self.tables, self.where):
            path = problem.path
            if len(path) > 1 and path[0] == "phases" and isinstance(path[1], int):
                path = ("phases", origins[path[1]], *path[2:])
            self._note(replace(problem, path=draft.source(path)), cell)

    # ---- the span -------------------------------------------------------------------------------

    def _span(self, draft: Draft, sweep: Sequence[Axis], repeat: Any, cell: str) -> tuple[int, int]:
        """The phases that a sweep repeats: from the first to the last that it names, or as told."""
        touched: list[tuple[int, Path]] = []
        for axis in sweep:
            for value in axis.values:
                for steps, _, source in value.settings:
                    if steps[0] != "phases":
                        text = (
                            "a sweep varies phases inside a trial; what needs a fresh stack goes to [matrix]"
                        )
                        self._note(Problem(source, "structure", text), cell)
                        continue
                    try:
                        index = place(self.walker, draft.tree, steps[:2])[1]
                    except (UnplacedError, IndexError):
                        continue  # noted where the value is set
                    if isinstance(index, int):
                        touched.append((index, source))
        told = self._repeat(draft, repeat, cell) if repeat is not None else None
        if told is not None:
            for index, source in touched:
                if not told[0] <= index < told[1]:
                    text = "this phase lies outside [sweep] repeat, so it would not be repeated"
                    self._note(Problem(source, "structure", text), cell)
            return told
        if not touched:
            return (0, 0)
        numbers = [index for index, _ in touched]
        return (min(numbers), max(numbers) + 1)

    def _repeat(self, draft: Draft, repeat: Any, cell: str) -> tuple[int, int] | None:
        place_: Path = ("sweep", "repeat")
        if not isinstance(repeat, dict) or set(repeat) != {"from", "to"}:
            text = 'expected { from = "PHASE", to = "PHASE" }'
            self._note(Problem(place_, "structure", text), cell)
            return None
        labels = [phase_label(p, self.phase_schema) for p in draft.tree.get("phases", ())]
        ends = []
        for key in ("from", "to"):
            word = repeat[key]
            if word not in labels:
                known = [label for label in labels if label]
                self._note(
                    Problem((*place_, key), "unknown", unknown(str(word), known, f"phase {quote(word)}")),
                    cell,
                )
            else:
                ends.append(labels.index(word))
        if len(ends) < 2:
            return None
        if ends[0] > ends[1]:
            self._note(Problem(place_, "structure", f'"{repeat["from"]}" comes after "{repeat["to"]}"'), cell)
            return None
        return (ends[0], ends[1] + 1)


def _as_written(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of what people write: `point` is the plan's own, filled in for each sweep point."""
    copied: dict[str, Any] = json.loads(json.dumps(schema))
    phase = Walker(copied).find(["phases", 0])
    if phase is not None:
        phase["properties"].pop("point", None)
    return copied
