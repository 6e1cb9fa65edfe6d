"""Partitions that begin where nothing below does: at sector 63, as tools made them until about 2010."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.evidence.ready import OFF_STRIPE
from fsdyno.audit.offstripe import advised, costly, why
from fsdyno.audit.questions import PAGE, number
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack, Striped
from fsdyno.audit.words import kib
from fsdyno.units import show_bytes

MIB = 1 << 20


def judge(stack: Stack) -> Iterator[Finding]:
    """Each partition against the blocks of its disk, then against the stripe that lies below it.

    No command makes a partition anew: what would is a new table, and the record does not show the other
    partitions of the disk, which that would lose.
    """
    off: dict[str, tuple[int, Striped]] = {}
    for stripes in costly(stack):
        off |= {step.layer: (step.off, stripes) for step in stripes.steps if step.off and not step.pv}
    for layer in stack.of_kind("partition"):
        start, disk = layer.offset, stack.disk_of(layer)
        if start is None or disk is layer:
            continue
        found = f"{layer.node} begins {kib(start)} into {disk.node} (sector {start // 512})"
        if off_block(disk, start):
            yield Finding(
                Severity.ADVICE,
                layer.name,
                found,
                f"a multiple of {show_bytes(MIB)}",
                across([disk], "each block of the file system"),
                f"# back up all that is on {disk.node}, then make this partition anew from 1 MiB on: that "
                "loses what is in it, and a new table loses every other partition too",
            )
        elif layer.name in off:
            by, stripes = off[layer.name]
            yield Finding(
                Severity.ADVICE,
                layer.name,
                f"{found}: {kib(by)} behind the start of a stripe",
                f"a multiple of {kib(stripes.stripe)}, the stripe of {stripes.on}",
                why(stack, stripes),
                f"# back up all that is on {disk.node}, then make this partition anew (what is in it is "
                f"lost) where this says: {advised(stack, stripes, disk)}",
            )


def off_block(disk: Layer, start: int) -> bool:
    """Whether a byte of a disk is within a block of its medium, or of a file system."""
    first = max(0, number(disk.queue, "alignment_offset") or 0)
    return (start - first) % PAGE != 0


def across(disks: list[Layer], what: str) -> str:
    """Why it costs that blocks lie across two of the medium, as far as the disks tell theirs."""
    if any((number(disk.queue, "physical_block_size") or 0) >= PAGE for disk in disks):
        return f"{what} lies across two of the medium: writes read first"
    larger = "whose blocks are larger than it tells (flash, 512e behind a bridge)"
    return f"on a medium {larger} {what} lies across two: writes read first"


RULE = Rule(
    name="partition-start",
    title="start of partitions",
    source="Linux Documentation/ABI/stable/sysfs-block (alignment_offset, physical_block_size); sfdisk(8)",
    needs=("layer", "queue"),
    judge=judge,
    caught=("partition-63", "member-on-partition-63", "partition-on-array"),
    evidence=OFF_STRIPE,
)
