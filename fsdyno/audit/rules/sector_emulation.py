"""File systems that write less than a block of the medium, on disks that emulate smaller sectors."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.questions import PAGE, few, number, place
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack
from fsdyno.units import show_bytes


def judge(stack: Stack) -> Iterator[Finding]:
    """All such disks at once. What begins within a block is the business of other rules."""
    smallest = stack.filesystem.upkeep.get("smallest_write") if stack.filesystem else None
    emulating = {
        leaf.node: size for leaf in stack.leaves if leaf.kind == "disk" and (size := _emulated(leaf))
    }
    wrong = {node: size for node, size in emulating.items() if smallest and smallest < size}
    if not wrong or smallest is None:
        return
    physical = max(wrong.values())
    yield Finding(
        Severity.ADVICE,
        place(stack),
        f"the file system writes pieces of {show_bytes(smallest)} to {few(list(wrong))}",
        f"{show_bytes(physical)}, the block of the medium",
        "for each such piece the disk reads a block of its medium, changes it and writes it",
        f"# make it anew with sectors or blocks of {physical} bytes",
    )


def _emulated(leaf: Layer) -> int:
    """The block of the medium, where the disk shows smaller ones; of larger ones than a page, a page."""
    physical = min(number(leaf.queue, "physical_block_size") or 0, PAGE)
    logical = number(leaf.queue, "logical_block_size") or physical
    return physical if logical < physical else 0


RULE = Rule(
    name="sector-emulation",
    title="sectors that the disk emulates",
    source="Linux Documentation/ABI/stable/sysfs-block (logical_block_size, physical_block_size); "
    "mkfs.xfs(8), -s; mke2fs(8), -b",
    needs=("superblock", "queue", "layer"),
    judge=judge,
    caught=("emulated-512-ext4", "emulated-512-xfs"),
)
