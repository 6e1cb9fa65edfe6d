"""Partitions that begin where nothing below does: at sector 63, as tools made them until about 2010."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.evidence.ready import OFF_STRIPE
from fsdyno.audit.offstripe import advised, costly, why
from fsdyno.audit.questions import number
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack
from fsdyno.audit.words import kib
from fsdyno.units import show_bytes

MIB = 1 << 20
PAGE = 4096  # the smallest block of today's file systems, and of the medium of today's disks


def judge(stack: Stack) -> Iterator[Finding]:
    """Each partition against the blocks of its disk, then against the stripe that lies below it."""
    stripes = costly(stack)
    steps = {step.layer: step.off for step in stripes.steps if not step.pv} if stripes else {}
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
                "each block of the file system lies across two of the device: writes read first",
                f"# back up, then make it anew: echo 'start=2048' | sfdisk {disk.node}",
            )
        elif stripes and steps.get(layer.name):
            yield Finding(
                Severity.ADVICE,
                layer.name,
                f"{found}: {kib(steps[layer.name])} behind the start of a stripe",
                f"a multiple of {kib(stripes.stripe)}, the stripe of {stripes.on}",
                why(stack, stripes),
                f"# back up, then make it anew where this says: {advised(stack, stripes, disk)}",
            )


def off_block(disk: Layer, start: int) -> bool:
    """Whether a byte of a disk is within a block of its medium, or of a file system."""
    physical = number(disk.queue, "physical_block_size") or PAGE
    usable = PAGE <= physical <= MIB and physical & (physical - 1) == 0
    first = max(0, number(disk.queue, "alignment_offset") or 0)
    return (start - first) % (physical if usable else PAGE) != 0


RULE = Rule(
    name="partition-start",
    title="start of partitions",
    source="Linux Documentation/ABI/stable/sysfs-block (alignment_offset, physical_block_size); sfdisk(8)",
    needs=("layer", "queue"),
    judge=judge,
    caught=("partition-63", "member-on-partition-63", "partition-on-array"),
    evidence=OFF_STRIPE,
)
