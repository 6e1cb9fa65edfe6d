"""Members of one array that are set differently: the array is as slow, or as unsafe, as the worst."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit import shell
from fsdyno.audit.questions import few, slots, text
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack

WHY = {
    "write_cache": "flushes wait for the members with a cache, every write for those without",
    "logical_block_size": "the array takes the largest, and refuses requests that are no multiple of it",
    "physical_block_size": "what suits one member makes the other read before it writes",
    "rotational": "a stripe is done when its slowest member is",
    "scheduler": "requests of one stripe wait by different rules",
    "nr_requests": "a stripe is done when its slowest member is",
}
# Each follows from the one before: disks of two kinds want two schedulers, and each brings its own depth.
FOLLOWING = ("rotational", "scheduler", "nr_requests")


def judge(stack: Stack) -> Iterator[Finding]:
    """Members of md against each other, by the attributes of the disks that they are or are part of.

    A mirror's members that are only written (`write_mostly`) are meant to be of another kind.
    """
    for array in stack.of_kind("md"):
        written = {device for device, states in slots(array) if "write_mostly" in states}
        below = [layer for name in array.lower if name not in written and (layer := stack.layer(name))]
        disks = [stack.disk_of(layer) for layer in below]
        alike = len({text(disk.facts, "driver") for disk in disks}) == 1
        for attribute, why in WHY.items():
            if attribute in FOLLOWING and not alike and attribute != FOLLOWING[0]:
                continue
            if finding := _differ(array, disks, attribute, why):
                alike = alike and attribute not in FOLLOWING
                yield finding


def _differ(array: Layer, disks: list[Layer], attribute: str, why: str) -> Finding | None:
    by_value: dict[str, list[Layer]] = {}
    for disk in disks:
        if attribute in disk.queue:
            by_value.setdefault(str(disk.queue[attribute]), []).append(disk)
    if len(by_value) < 2:
        return None
    groups = sorted(by_value.items(), key=lambda group: -len(group[1]))
    usual, odd = groups[0][0], groups[-1][1][0]
    if attribute in ("scheduler", "nr_requests"):
        command = f"echo {shell.word(usual)} > {shell.attribute(odd, f'queue/{attribute}')}"
    elif attribute == "write_cache":
        command = f"# set the caches of the disks themselves alike (hdparm -W, sdparm), {odd.node} first"
    else:
        command = f"# replace {odd.node} by a disk like the others"
    found = "; ".join(f"{value} at {few([disk.name for disk in some])}" for value, some in groups)
    return Finding(
        Severity.ADVICE,
        array.name,
        f"members of {array.node} differ in {attribute}: {found}",
        "the same at all members",
        why,
        command,
    )


RULE = Rule(
    name="members-differ",
    title="members of an array that are set differently",
    source="Linux Documentation/ABI/stable/sysfs-block; blk_stack_limits of the kernel; md(4), write-mostly",
    needs=("queue",),
    judge=judge,
    caught=("members-differ",),
)
