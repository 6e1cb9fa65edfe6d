"""What the phases of a trial do to the space: how much data stands, how much is moved.

Only as exact as planning needs (does it fit, about how long): file data, no metadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fsdyno.plan.model import Cell, Spec

_MAKES = {"tree": ("create",), "stream": ("write",)}
"""By kind of load, the operations that make the files of its data set."""
_SPARSE_EXTRA = 0.1  # share that metadata and journals may add to the data in a sparse file
_SPARSE_LEAST = 256 << 20


@dataclass
class Step:
    """What one phase does."""

    kind: str
    files: int = 0  # files visited
    written: int = 0  # bytes
    read: int = 0
    operations: int = 0  # of a random load
    runtime: float = 0.0  # where the phase itself says how long it runs
    direct: bool = False


@dataclass
class Course:
    """What the phases of a flat spec do, in order."""

    peak: int = 0  # most bytes of file data at one time
    peak_of: dict[str, int] = field(default_factory=dict)  # by data set, at the peak
    steps: list[Step] = field(default_factory=list)

    @property
    def written(self) -> int:
        """Bytes written by all phases."""
        return sum(step.written for step in self.steps)


def follow(spec: Mapping[str, Any]) -> Course:
    """Follows the phases of a flat spec."""
    datasets: Mapping[str, Any] = spec.get("datasets", {})
    course = Course()
    standing: dict[str, int] = {}
    for phase in spec.get("phases", ()):
        kind, load = load_of(phase)
        step = Step(kind)
        course.steps.append(step)
        if kind == "mkfs":
            standing.clear()
        if load is None:
            continue
        name, operation = load.get("dataset"), load.get("op")
        step.direct = bool(load.get("direct"))
        files, size = _extent(datasets, name)
        if "operations" in load or "runtime" in load:
            _random(step, load, operation)
            continue
        step.files = files
        if makes_files(phase):
            standing[str(name)] = files * size
            step.written = files * size
        elif operation == "rewrite":
            step.written = files * size
        elif operation == "read":
            step.read = files * size
        elif operation == "delete":
            standing.pop(str(name), None)
        if sum(standing.values()) > course.peak:
            course.peak, course.peak_of = sum(standing.values()), dict(standing)
    return course


def _random(step: Step, load: Mapping[str, Any], operation: Any) -> None:
    step.operations = int(load.get("operations") or 0)
    step.runtime = float(load.get("runtime") or 0.0)
    moved = step.operations * int(load.get("record", 0))
    reads = {"read": 1.0, "write": 0.0}.get(str(operation), load.get("read_percent", 60) / 100)
    step.read, step.written = round(moved * reads), round(moved * (1 - reads))


def load_of(phase: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None]:
    """The kind of a phase, and the table of its load if it is one."""
    shared = ("name", "timeout", "at", "point")
    kind = next((key for key in phase if key not in shared), "")
    table = phase.get(kind)
    if kind == "workload" and isinstance(table, Mapping) and len(table) == 1:
        load = next(iter(table.values()))
        return kind, load if isinstance(load, Mapping) else None
    return kind, None


def makes_files(phase: Mapping[str, Any]) -> bool:
    """Whether the data set of a phase exists after it, though it did not before."""
    kind, load = load_of(phase)
    return load is not None and load.get("op") in _MAKES.get(next(iter(phase[kind])), ())


def _extent(datasets: Mapping[str, Any], name: Any) -> tuple[int, int]:
    dataset = datasets.get(name) if isinstance(name, str) else None
    if not isinstance(dataset, Mapping):
        return 0, 0
    return int(dataset.get("files", 0)), int(dataset.get("size", 0))


def leaves(stack: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    """The leaf devices in slot order, each with its place in `stack.devices`: `count` is spelt out."""
    found: list[tuple[int, Mapping[str, Any]]] = []
    for number, device in enumerate(stack.get("devices", ())):
        count = int(device["file"].get("count", 1)) if "file" in device else 1
        found += [(number, device)] * count
    return found


def space(
    cells: Iterable[Cell], needs_device: Callable[[Spec], bool], place_of: Callable[[str | None], str]
) -> dict[str, int]:
    """Bytes that these cells need at most in a campaign, by place.

    `place_of` gives the place of a folder; None is the agent's work folder. Written files are kept for
    the whole campaign, one for each slot, size and folder; sparse files and data in a directory come and
    go with their trial, and are filled by an array that computes its parity or copies.
    """
    kept: dict[tuple[Any, ...], int] = {}
    passing: Counter[str] = Counter()
    for cell in cells:
        stack = cell.spec.get("stack", {})
        peak = follow(cell.expand(range(len(cell.point_phases)))).peak
        here: Counter[str] = Counter()
        if stack.get("directory"):
            here[place_of(stack["directory"])] += peak
        elif needs_device(cell.spec):
            filled = (stack.get("array") or {}).get("resync") == "wait"
            for slot, (_, device) in enumerate(leaves(stack)):
                file: Mapping[str, Any] | None = device.get("file")
                if file is None:
                    continue
                folder = file.get("folder")
                if file.get("backing") == "written":
                    kept[(slot, file["size"], folder)] = file["size"]
                else:
                    most = file["size"] if filled else int(peak * (1 + _SPARSE_EXTRA)) + _SPARSE_LEAST
                    here[place_of(folder)] += min(file["size"], most)
        passing |= here
    for _, size, folder in kept:
        passing[place_of(folder)] += size
    return dict(passing)
