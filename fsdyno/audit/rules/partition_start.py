"""Partitions that begin where nothing below does: at sector 63, as tools made them until about 2010."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.evidence.ready import OFF_STRIPE
from fsdyno.audit.offstripe import advised, costly, why
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack, Striped
from fsdyno.audit.starts import across, behind, off_block, under, whole
from fsdyno.audit.words import kib


def judge(stack: Stack) -> Iterator[Finding]:
    """Each partition against the stripe that lies below it, then against the blocks of its disk.

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
        if layer.name in off:
            by, stripes = off[layer.name]
            yield Finding(
                Severity.ADVICE,
                layer.name,
                f"{found}, {behind(stack, stripes, layer, by)}",
                whole(stripes),
                why(stack, stripes),
                _anew(disk, f"where this says: {advised(stack, stripes, disk)}"),
            )
        elif off_block(disk, start):
            below = under(stack, disk)
            yield Finding(
                Severity.ADVICE,
                layer.name,
                found,
                whole(below),
                across([disk], "each block of the file system"),
                _anew(disk, f"where this says: {advised(stack, below, disk)}" if below else "from 1 MiB on"),
                measured=False,
            )


def _anew(disk: Layer, where: str) -> str:
    return (
        f"# back up all that is on {disk.node}, then make this partition anew, which loses what is in it "
        f"(and with a new table every other partition), {where}"
    )


RULE = Rule(
    name="partition-start",
    title="start of partitions",
    source="Linux Documentation/ABI/stable/sysfs-block (alignment_offset, physical_block_size); sfdisk(8)",
    needs=("layer", "queue"),
    judge=judge,
    caught=("partition-63", "member-on-partition-63", "partition-on-array", "partition-63-on-array"),
    evidence=OFF_STRIPE,
)
