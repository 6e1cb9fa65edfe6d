"""Partitions that begin where nothing below does: at sector 63, as tools made them until about 2010."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack
from fsdyno.units import show_bytes

MIB = 1 << 20
PAGE = 4096  # the smallest block of today's file systems, and of the medium of today's disks


def judge(stack: Stack) -> Iterator[Finding]:
    """Each partition against the physical block, 4 KiB, and the stripe that lies below it."""
    stripes = stack.stripes
    for layer in stack.of_kind("partition"):
        start = layer.offset
        if start is None:
            continue
        disk = stack.disk_of(layer)
        block = max(PAGE, int(disk.queue.get("physical_block_size") or 0))
        off_stripe = stripes is not None and stripes.off != 0 and stripes.steps.get(layer.name, 0) != 0
        if start % block == 0 and not off_stripe:
            continue
        unit = f"{show_bytes(stripes.stripe)}, the stripe" if off_stripe and stripes else show_bytes(MIB)
        yield Finding(
            Severity.ADVICE,
            layer.name,
            f"{layer.node} begins {show_bytes(start)} into {disk.node} (sector {start // 512})",
            f"a multiple of {unit}",
            "each block of the file system lies across two of the device: writes read first",
            f"# back up, then make it anew: echo 'start=2048' | sfdisk {disk.node}",
        )


RULE = Rule(
    name="partition-start",
    title="start of partitions",
    source="Linux Documentation/ABI/stable/sysfs-block (alignment_offset, physical_block_size); sfdisk(8)",
    needs=("layer",),
    judge=judge,
    caught=("partition-63",),
)
