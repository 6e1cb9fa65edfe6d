"""What a plan is once it has been read: plain values that campaign, store and report work with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any

Spec = dict[str, Any]
"""A trial spec in base units, as the agent's schema has it."""

AUTO, NATIVE, GUEST = PLACES = ("auto", "native", "guest")
"""What a plan may say of its place; `auto` leaves it to the campaign."""


@dataclass(frozen=True)
class Value:
    """One value of an axis."""

    label: str
    wire: Any  # what identifies it to machines: the value itself, a bundle's name
    settings: tuple[tuple[tuple[str, ...], Any, tuple[str | int, ...]], ...]
    """What it sets: steps of a path into the trial, the value, and where in the plan it is written."""
    bundle: bool


@dataclass(frozen=True)
class Axis:
    """A setting with several values. `key` is a path into the trial, or any name if all are bundles."""

    key: str
    values: tuple[Value, ...]

    @property
    def labels(self) -> list[str]:
        """The labels of its values, in the plan's order."""
        return [value.label for value in self.values]


@dataclass(frozen=True)
class Point:
    """One setting of the sweep."""

    index: int
    label: dict[str, str]  # axis -> label
    name: str


@dataclass(frozen=True)
class Cell:
    """One combination of the matrix."""

    index: int
    label: dict[str, str]  # axis -> label
    name: str
    spec: Spec
    """Resolved, in base units, with defaults. Swept phases stand once, as at the first point."""
    span: tuple[int, int]
    """First phase that the sweep repeats, and the one after the last; equal if there is no sweep."""
    point_phases: tuple[tuple[Spec, ...], ...] = ()
    """For each point the phases of the span, each with `point` filled in."""
    what: str = field(default="", compare=False)

    def on(self, machine: Spec) -> Cell:
        """The same cell in a guest, which becomes part of its configuration."""
        spec = {**self.spec, "machine": machine}
        return replace(self, spec=spec, what=configuration(spec, self.span, self.point_phases))

    def expand(self, point_order: Sequence[int]) -> Spec:
        """The flat spec that is sent to the agent: the span once per point, in the given order."""
        if sorted(point_order) != list(range(len(self.point_phases))):
            raise ValueError(f"{list(point_order)} is no order of {len(self.point_phases)} points")
        phases = self.spec["phases"]
        start, stop = self.span
        middle = [phase for point in point_order for phase in self.point_phases[point]]
        flat = [*phases[:start], *middle, *phases[stop:]] if self.point_phases else list(phases)
        copied: Spec = json.loads(json.dumps({**self.spec, "phases": flat}))
        return copied


def what_hash(spec: Spec, point_phases: Sequence[Sequence[Spec]]) -> str:
    """SHA-256 of what is done: the resolved spec and the set of its sweep points, in no order."""
    points = sorted(canonical(list(phases)) for phases in point_phases)
    return hashlib.sha256(canonical({"spec": spec, "points": points}).encode()).hexdigest()


def configuration(spec: Spec, span: tuple[int, int], point_phases: Sequence[Sequence[Spec]]) -> str:
    """The hash of a cell: of its swept phases only the place, as all points share it, and the points."""
    if not point_phases:
        return what_hash(spec, ())
    phases = spec.get("phases", [])
    return what_hash({**spec, "phases": [*phases[: span[0]], "sweep", *phases[span[1] :]]}, point_phases)


def canonical(value: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class Plan:
    """A question with everything needed to answer it."""

    question: str
    name: str
    text: str
    rounds: int
    seed: int | None
    place: str
    axes: tuple[Axis, ...]
    sweep: tuple[Axis, ...]
    reference: dict[str, str]
    """Matrix axis -> label. A cell is compared with the cell that has these and is equal in all else."""
    cells: tuple[Cell, ...]
    points: tuple[Point, ...]
    """Empty without a sweep."""
    needs_device: Callable[[Spec], bool] = field(compare=False, repr=False)
    """Whether the file system of a spec lives on its devices, from the agent's tables."""
    schema: dict[str, Any] = field(compare=False, repr=False)
    """The agent's schema of a trial."""
    path: FilePath | None = None

    @property
    def trials(self) -> int:
        """Trials of the whole campaign."""
        return self.rounds * len(self.cells)

    @property
    def has_machine(self) -> bool:
        """Whether a cell asks for a guest of its own accord."""
        return any("machine" in cell.spec for cell in self.cells)

    def in_guest(self) -> Plan:
        """The plan with a machine for each cell that has none, but for those in a directory."""
        from fsdyno.plan.schema import Walker

        walker = Walker(self.schema)
        machine: Spec = walker.check({}, walker.find(["machine"]) or {})
        cells = [
            cell if "machine" in cell.spec or cell.spec["stack"].get("directory") else cell.on(machine)
            for cell in self.cells
        ]
        return replace(self, cells=tuple(cells))

    def space(self) -> int:
        """Bytes that backing files (and data in directories) will take at most, wherever they are."""
        return sum(self.space_by(lambda folder: "").values())

    def space_by(
        self, place_of: Callable[[str | None], str], leave_out: Container[int] = ()
    ) -> dict[str, int]:
        """The same by place; `place_of` a folder (None: the agent's work folder). Without some cells."""
        from fsdyno.plan.effects import space

        cells = [cell for cell in self.cells if cell.index not in leave_out]
        return space(cells, self.needs_device, place_of)
