"""Members of one array that are set differently: the array is as slow, or as unsafe, as the worst."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.questions import few, members
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack

WHY = {
    "write_cache": "flushes wait for the members with a cache, every write for those without",
    "rotational": "a stripe is done when its slowest member is",
    "logical_block_size": "the array takes the largest, and each smaller write becomes a read and a write",
    "physical_block_size": "what suits one member makes the other read before it writes",
    "scheduler": "requests of one stripe wait by different rules",
    "nr_requests": "a stripe is done when its slowest member is",
}
MENDED = ("write_cache", "scheduler", "nr_requests")


def judge(stack: Stack) -> Iterator[Finding]:
    """Members of md against each other, by the attributes of the disks that they are or are part of."""
    for array in stack.of_kind("md"):
        lower = [stack.disk_of(layer) for name in members(array) if (layer := stack.layer(name))]
        for attribute, why in WHY.items():
            yield from _differ(array, lower, attribute, why)


def _differ(array: Layer, lower: list[Layer], attribute: str, why: str) -> Iterator[Finding]:
    by_value: dict[str, list[Layer]] = {}
    for disk in lower:
        if attribute in disk.queue:
            by_value.setdefault(str(disk.queue[attribute]), []).append(disk)
    if len(by_value) < 2:
        return
    groups = sorted(by_value.items(), key=lambda group: -len(group[1]))
    most, odd = groups[0], groups[-1]
    if attribute in MENDED:
        command = f"echo '{most[0]}' > /sys/block/{odd[1][0].name}/queue/{attribute}"
    else:
        command = f"# replace {odd[1][0].node} by a disk like the others"
    if attribute == "write_cache":
        command = (
            f"# set the caches of the disks themselves alike (hdparm -W, sdparm), {odd[1][0].node} first"
        )
    found = "; ".join(f"{value} at {few([disk.name for disk in disks])}" for value, disks in groups)
    yield Finding(
        Severity.ADVICE,
        array.name,
        f"members of {array.node} differ in {attribute}: {found}",
        "the same at all members",
        why,
        command,
    )


RULE = Rule(
    name="write-cache-mixed",
    title="members of an array that are set differently",
    source="Linux Documentation/ABI/stable/sysfs-block; blk_stack_limits of the kernel",
    needs=("queue",),
    judge=judge,
    caught=(),
)
