"""Questions that several rules ask of a stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fsdyno.audit.offstripe import PARITY
from fsdyno.audit.stack import Layer, Stack

VOLATILE = "write back"  # `queue/write_cache` of a device that has to be told to flush
THROUGH = "write through"  # of one to which the kernel sends no flushes

PAGE = 4096
"""Bytes: the block of today's file systems, and of the medium of today's disks. What a disk tells beyond
that (NVMe: 16 KiB and more) is how its flash is organised, which is no reason to place anything by it."""

REDUNDANT = ("raid1", "raid10", *PARITY)  # levels of md, as sysfs has them

# What sysfs calls the bus of disks that a hypervisor serves, and the models of those it serves as SCSI.
_BUSES = ("virtio", "xen", "vmbus")
_MODELS = ("QEMU", "VBOX", "Virtual disk", "Virtual Disk", "PersistentDisk", "BlockVolume")


def number(facts: Mapping[str, Any], name: str) -> int | None:
    """A fact that is a whole number; None if it was not recorded, or is none."""
    value = facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(facts: Mapping[str, Any], name: str) -> str:
    """A fact that is a word; empty if it was not recorded."""
    value = facts.get(name)
    return value if isinstance(value, str) else ""


def slots(array: Layer) -> list[tuple[str, set[str]]]:
    """Devices of an array of md with their states (`in_sync`, `faulty`, …), spares and failed ones too."""
    listed = array.facts.get("slots")
    told = [slot for slot in (listed if isinstance(listed, list) else ()) if isinstance(slot, dict)]
    return [(text(slot, "device"), set(text(slot, "state").split(","))) for slot in told]


def all_below(stack: Stack, layer: Layer) -> Iterator[Layer]:
    """Every layer that it lies on, at whatever depth, each once."""
    waiting, met = list(layer.lower), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in met or (lower := stack.layer(name)) is None:
            continue
        met.add(name)
        yield lower
        waiting += lower.lower


def volatile_leaves(stack: Stack) -> list[Layer]:
    """Devices at the bottom that lose what they were not told to flush when power fails."""
    return [leaf for leaf in stack.leaves if text(leaf.queue, "write_cache") == VOLATILE]


def is_virtual(leaf: Layer) -> bool:
    """Whether a hypervisor serves this disk, or nothing does: its queue tells nothing of a medium."""
    if leaf.kind != "disk":
        return True
    model = text(leaf.facts, "model")
    memory = leaf.name.startswith(("zram", "ram", "nbd"))
    return memory or text(leaf.facts, "driver") in _BUSES or model.startswith(_MODELS)


def is_read_only(stack: Stack) -> bool:
    """Whether nothing is written to it. Where only this mount is, and others are not, both words show."""
    return stack.mount is not None and "ro" in stack.mount.options and "rw" not in stack.mount.options


def place(stack: Stack) -> str:
    """What a finding on the whole file system is about: its mount point, else what was asked for."""
    return stack.mount.point if stack.mount else stack.target


def few(names: list[str]) -> str:
    """Names for one line: at most three, and how many more."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
