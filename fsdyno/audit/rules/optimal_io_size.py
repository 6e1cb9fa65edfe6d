"""Disks that announce an optimal size of requests which is none: bridges that give the largest number of
the field. mkfs and LVM take it for a stripe.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.questions import few, number
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack

# Sectors: the largest number of SCSI's 16-bit fields, and the most that the kernel sends in a request by
# default. Stripes of controllers are known up to 22 MiB, which is less at any size of sector.
LARGEST = 0xFFFF


def judge(stack: Stack) -> Iterator[Finding]:
    """All such disks at once, and whether the file system works with it."""
    wrong = {leaf.node: size for leaf in stack.leaves if leaf.kind == "disk" and (size := bogus(leaf))}
    if not wrong:
        return
    node, size = next(iter(wrong.items()))
    found = f"optimal_io_size of {few(list(wrong))} is {size} bytes"
    command = f"# nothing to do; tell mkfs that {node} has no stripe when it is made anew"
    if taken := _taken(stack, size):
        found += f"; the file system works with it: {taken}"
        command = "# make it anew and tell mkfs that there is no stripe"
    yield Finding(
        Severity.ADVICE,
        node.removeprefix("/dev/"),
        found,
        f"0, or a stripe: a multiple of the physical block, below {LARGEST} sectors",
        "mkfs and LVM take it for a stripe and place everything by it",
        command,
    )


def bogus(leaf: Layer) -> int:
    """The optimal size that is none; 0 if it may be one, or none is announced."""
    size = number(leaf.queue, "optimal_io_size") or 0
    physical = number(leaf.queue, "physical_block_size") or 512
    logical = number(leaf.queue, "logical_block_size") or 512
    possible = physical > 0 and size % physical == 0 and size < LARGEST * logical
    return 0 if size <= 0 or possible else size


def _taken(stack: Stack, size: int) -> str:
    """The numbers of the superblock that are that size in sectors or in blocks of a page."""
    geometry = stack.filesystem.geometry if stack.filesystem and not stack.striped else None
    units = (1, 512, 1024, 2048, 4096)
    taken = {n: v for n, v in (geometry or {}).items() if v > 1 and v in {size // unit for unit in units}}
    return ", ".join(f"{name}={value}" for name, value in taken.items())


RULE = Rule(
    name="optimal-io-size",
    title="optimal size of requests",
    source="Linux Documentation/ABI/stable/sysfs-block (optimal_io_size); drivers/scsi/sd.c, "
    "sd_validate_opt_xfer_size and SD_DEF_XFER_BLOCKS",
    needs=("queue", "layer"),
    judge=judge,
    caught=("bogus-optimal",),
)
