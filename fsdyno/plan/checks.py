"""Mistakes that the schema cannot see and that would cost a person a night: phases in an order that
cannot work, data that does not fit, a load on files that nobody made.

Only cheap and certain ones; the agent judges everything again when it builds the stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fsdyno.plan.effects import follow, load_of, makes_files
from fsdyno.plan.layers import check_layers, room
from fsdyno.plan.model import GUEST, NATIVE
from fsdyno.plan.problems import Path, Problem, unknown
from fsdyno.units import show_bytes


class Tables:
    """What the agent's `describe` says, by name."""

    def __init__(self, describe: Mapping[str, Any]) -> None:
        self.filesystems = {str(one["name"]): one for one in describe.get("filesystems", ())}

    def needs_device(self, spec: Mapping[str, Any]) -> bool:
        """Whether the file system of a trial lives on its devices."""
        if "directory" in spec.get("stack", {}):
            return False
        return bool(self._row(spec).get("needs_device", True))

    def minimum_size(self, spec: Mapping[str, Any]) -> int:
        """The smallest device that mkfs takes, in bytes."""
        return int(self._row(spec).get("minimum_size", 0))

    def kind(self, spec: Mapping[str, Any]) -> str:
        """The type of the file system."""
        filesystem = spec.get("filesystem")
        return str(filesystem.get("type", "")) if isinstance(filesystem, Mapping) else ""

    def _row(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        row: Mapping[str, Any] = self.filesystems.get(self.kind(spec), {})
        return row


def check_course(spec: Mapping[str, Any], tables: Tables, where: str) -> Iterator[Problem]:
    """Problems of a flat, valid spec, to run in the place `where`. Paths are of the flat spec."""
    yield from _place(spec, where)
    yield from _stack(spec, tables)
    yield from _loads(spec)
    if "directory" not in spec["stack"]:
        yield from _mounts(spec, tables)


def _place(spec: Mapping[str, Any], where: str) -> Iterator[Problem]:
    machine = "machine" in spec
    if machine and where == NATIVE:
        text = 'a machine is a guest, but the plan says place = "native": leave one of them out'
        yield Problem(("machine",), "structure", text)
    if machine and "directory" in spec["stack"]:
        text = "a directory is measured on the machine that it is on: leave this out, or use stack.devices"
        yield Problem(("machine",), "structure", text)
    if machine or where == GUEST:
        for number, device in enumerate(spec["stack"].get("devices", ())):
            if "disk" in device:
                text = "a guest gets no real disk, only files: use { file = { size = … } }, or run natively"
                yield Problem(("stack", "devices", number, "disk"), "structure", text)


def _stack(spec: Mapping[str, Any], tables: Tables) -> Iterator[Problem]:
    if not spec["phases"]:
        yield Problem(("phases",), "structure", "has no phases: nothing would be measured")
    if "directory" in spec["stack"]:
        if "filesystem" in spec:
            text = "an existing directory has its file system already; leave this out, or use stack.devices"
            yield Problem(("filesystem",), "structure", text)
        return
    devices = spec["stack"].get("devices", [])
    if "filesystem" not in spec:
        yield Problem((), "missing", 'missing key "filesystem": which one should be made on the devices?')
        return
    if not tables.needs_device(spec):
        return
    if not devices:
        text = f"{tables.kind(spec)} needs a device: write stack.devices = [{{ file = {{ size = … }} }}]"
        yield Problem(("stack",), "structure", text)
        return
    yield from check_layers(spec)
    size = room(spec)
    if size is None:
        return
    place: Path = ("stack", "devices", 0, "file", "size")
    least = tables.minimum_size(spec)
    if size < least:
        text = f"{show_bytes(size)} is too small for {tables.kind(spec)}: at least {show_bytes(least)}"
        yield Problem(place, "value", text)
    course = follow(spec)
    if course.peak > size:
        parts = ", ".join(f"{name} {show_bytes(size)}" for name, size in course.peak_of.items())
        text = (
            f"the data sets need {show_bytes(course.peak)} at one time ({parts}), "
            f"the device has {show_bytes(size)}: make it larger or the data smaller"
        )
        yield Problem(place, "value", text)


def _loads(spec: Mapping[str, Any]) -> Iterator[Problem]:
    datasets: Mapping[str, Any] = spec.get("datasets", {})
    made: set[str] = set()
    for number, phase in enumerate(spec["phases"]):
        kind, load = load_of(phase)
        if kind == "mkfs":
            made.clear()
        if load is None or not isinstance(load.get("dataset"), str):
            continue
        name = str(load["dataset"])
        variant = next(iter(phase["workload"]))
        place: Path = ("phases", number, "workload", variant)
        if name not in datasets:
            yield Problem((*place, "dataset"), "unknown", unknown(name, list(datasets), f'data set "{name}"'))
            continue
        if makes_files(phase):
            made.add(name)
        elif name not in made:
            text = f'nothing has made the data set "{name}" at this point'
            yield Problem((*place, "dataset"), "structure", text)
            made.add(name)  # told once
        elif load.get("op") == "delete":
            made.discard(name)
        threads, files = load.get("threads", 1), datasets[name].get("files", 1)
        if variant == "stream" and threads > files:
            have = f"{files} file{'s' if files > 1 else ''}"
            text = f'{threads} threads, but "{name}" has {have}; at most one thread per file'
            yield Problem((*place, "threads"), "value", text)
        if variant == "random" and ("operations" in load) == ("runtime" in load):
            both = "both are given" if "operations" in load else "neither is given"
            text = f'needs either "operations" or "runtime"; {both}'
            yield Problem(place, "structure", text)


def _mounts(spec: Mapping[str, Any], tables: Tables) -> Iterator[Problem]:
    made, mounted = not tables.needs_device(spec), False
    for number, phase in enumerate(spec["phases"]):
        kind, _ = load_of(phase)
        place: Path = ("phases", number)
        if kind in ("mkfs", "check") and mounted:
            yield Problem(
                place, "structure", f"{kind} on a mounted file system; put {{ unmount = {{}} }} before it"
            )
        elif kind in ("mount", "check") and not made:
            yield Problem(
                place, "structure", f"{kind} without a file system; put {{ mkfs = {{}} }} before it"
            )
        elif kind == "mount" and mounted:
            yield Problem(place, "structure", "is mounted already")
        elif kind in ("workload", "remount", "unmount", "sync") and not mounted:
            yield Problem(place, "structure", f"{kind} without a mount; put {{ mount = {{}} }} before it")
        if kind == "mkfs":
            made = True
        elif kind in ("mount", "workload", "remount", "sync"):
            made = mounted = True  # told once
        elif kind in ("unmount", "mkfs", "check"):
            mounted = False
