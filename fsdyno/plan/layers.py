"""Between leaf devices and file system: how much room arrays and volumes leave, and what cannot be meant.

A stack that cannot be built is known only when the agent builds it, and that may be in the middle of a
night. What follows from the plan alone is told before. Levels and layouts as in md(4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fsdyno.plan.effects import leaves, load_of
from fsdyno.plan.members import check_members, wrong_layout
from fsdyno.plan.problems import Path, Problem, unknown
from fsdyno.units import show_bytes

LEAST_CHUNK, MOST_CHUNK = 4096, 1 << 30  # a page, the unit in which md deals out data; what no array has had
EXTENT = 4 << 20  # LVM's own size, which the agent states where the plan does not
_EXTENT_STEP = 128 << 10

_PARITY = {5: 1, 6: 2}
_LEAST = {0: 2, 1: 2, 5: 3, 6: 4, 10: 2}
"""Fewest members by RAID level."""


def room(spec: Mapping[str, Any]) -> int | None:
    """Bytes of the device that the file system lies on, or a little more; None where the plan cannot
    know, as with real disks."""
    stack = spec["stack"]
    sizes = [int(device["file"]["size"]) for _, device in leaves(stack) if "file" in device]
    if len(sizes) < len(leaves(stack)) or not sizes:
        return None
    size = sum(sizes)
    if array := stack.get("array"):
        size = _array_room(array, sizes, _most_members(spec, array, len(sizes)))
    used = _used(stack.get("lvm") or {})
    return min(size, used["size"]) if used and "size" in used else size


def _most_members(spec: Mapping[str, Any], array: Mapping[str, Any], devices: int) -> int:
    grown = [int(p["grow"]["members"]) for p in spec.get("phases", ()) if load_of(p)[0] == "grow"]
    return min(devices, max([devices - int(array.get("spares", 0)), *grown]))


def _array_room(array: Mapping[str, Any], sizes: Sequence[int], members: int) -> int:
    level, least = array["level"], min(sizes[:members], default=0)
    if level == 0:
        return sum(sizes[:members])
    if level == 1:
        return least
    if level == 10:
        copies = re.search(r"\d+$", str(array.get("layout", "")))
        return members * least // (int(copies[0]) if copies and int(copies[0]) else 2)
    return max(0, members - _PARITY.get(level, 0)) * least


def _used(lvm: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The volume that the file system goes on; None if there is one over the whole group."""
    volumes = lvm.get("volumes", [])
    wanted = lvm.get("use")
    if wanted is None:
        return volumes[-1] if volumes else None
    return next((volume for volume in volumes if volume["name"] == wanted), None)


def check_layers(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of the layers of a flat, valid spec that has devices."""
    stack = spec["stack"]
    array, lvm = stack.get("array"), stack.get("lvm")
    devices = len(leaves(stack))
    if devices > 1 and array is None and lvm is None:
        text = f"{devices} devices, and nothing joins them: add stack.array = {{ level = … }} or stack.lvm"
        yield Problem(("stack", "devices"), "structure", text)
    if array is not None:
        yield from _array(array, devices)
    if lvm is not None:
        below = 1 if array else devices
        yield from _lvm(lvm, room({**spec, "stack": {**stack, "lvm": None}}), below)
    yield from check_members(spec["phases"], array, devices)


def _array(array: Mapping[str, Any], devices: int) -> Iterator[Problem]:
    level, spares = array["level"], int(array.get("spares", 0))
    least, members = _LEAST.get(level, 1), devices - spares
    if members < least:
        have = f"{devices} device{'s' if devices != 1 else ''}"
        less = f", of which {spares} stay out as spares" if spares else ""
        text = f"RAID {level} takes at least {least} members; the stack has {have}{less}"
        yield Problem(("stack", "array", "spares" if spares else "level"), "value", text)
    elif why := wrong_layout(level, array.get("layout"), members):
        yield Problem(("stack", "array", "layout"), "value", why)
    if level == 0 and array.get("bitmap") == "internal":
        text = "RAID 0 has nothing that a bitmap could keep track of: leave this out"
        yield Problem(("stack", "array", "bitmap"), "structure", text)
    yield from _chunk(level, array.get("chunk"))


def _chunk(level: int, chunk: int | None) -> Iterator[Problem]:
    if chunk is None:
        if level != 1:
            text = f'missing key "chunk": what RAID {level} puts on one member before it turns to the next'
            yield Problem(("stack", "array"), "missing", text)
    elif level == 1:
        text = "RAID 1 has no chunks, as each member holds everything: leave this out"
        yield Problem(("stack", "array", "chunk"), "structure", text)
    elif chunk < LEAST_CHUNK or chunk & (chunk - 1):
        near = max(LEAST_CHUNK, 1 << chunk.bit_length())
        text = f"{show_bytes(chunk)} is no power of two from 4 KiB up; the next one is {show_bytes(near)}"
        yield Problem(("stack", "array", "chunk"), "value", text)
    elif chunk > MOST_CHUNK:
        text = f"{show_bytes(chunk)} is more than {show_bytes(MOST_CHUNK)}: state what lies on one member"
        yield Problem(("stack", "array", "chunk"), "value", text)


def _lvm(lvm: Mapping[str, Any], group: int | None, below: int) -> Iterator[Problem]:
    """`group`: bytes that it has, None if unknown; `below`: its physical volumes."""
    volumes: Sequence[Mapping[str, Any]] = lvm.get("volumes", [])
    at: Path = ("stack", "lvm")
    extent = int(lvm.get("extent", EXTENT))
    if extent == 0 or (extent & (extent - 1) and extent % _EXTENT_STEP):
        text = f"{show_bytes(extent)} is no extent: give a power of two, or a multiple of 128 KiB"
        yield Problem((*at, "extent"), "value", text)
        extent = 0
    names = [str(volume["name"]) for volume in volumes]
    taken = 0
    for number, volume in enumerate(volumes):
        here: Path = (*at, "volumes", number)
        if volume["name"] in names[:number]:
            yield Problem((*here, "name"), "structure", f'a volume is called "{volume["name"]}" already')
        if "size" not in volume and number < len(volumes) - 1:
            text = "takes all that is left of the group, so only the last volume may; give it a size"
            yield Problem(here, "structure", text)
        yield from _volume(volume, here, extent, below)
        taken += int(volume.get("size", 0))
        if group is not None and taken > group and "size" in volume:
            text = f"the volumes need {show_bytes(taken)} up to here, the group has {show_bytes(group)}"
            yield Problem((*here, "size"), "value", text)
            break
    wanted = lvm.get("use")
    if wanted is not None and wanted not in names:
        yield Problem((*at, "use"), "unknown", unknown(wanted, names, f'volume "{wanted}"'))


def _volume(volume: Mapping[str, Any], here: Path, extent: int, below: int) -> Iterator[Problem]:
    size, stripes = int(volume.get("size", 0)), volume.get("stripes")
    if extent and size % extent:
        near = show_bytes(size + extent - size % extent)
        text = (
            f"{show_bytes(size)} is no multiple of the extent, {show_bytes(extent)}; the next one is {near}"
        )
        yield Problem((*here, "size"), "value", text)
    if stripes is None and "stripe_size" in volume:
        yield Problem((*here, "stripe_size"), "structure", "the volume has no stripes: give `stripes` too")
    elif stripes is not None and stripes > below:
        has = "1 device" if below == 1 else f"{below} devices"
        text = f"{stripes} stripes, each on a physical volume of its own; the group lies on {has}"
        yield Problem((*here, "stripes"), "value", text)
