"""Work on disks that the host begins by itself, and that would fall into a measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fsdyno.audit.questions import number
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack


@dataclass(frozen=True)
class Work:
    """What timers whose names have one of these words do, and whether it concerns a stack."""

    words: tuple[str, ...]
    does: str
    concerns: Callable[[Stack, str], bool]


def _arrays(stack: Stack, name: str) -> bool:
    return any(number(layer.facts, "members") for layer in stack.of_kind("md"))


def _trims(stack: Stack, name: str) -> bool:
    return stack.mount is not None and bool(stack.top and number(stack.top.queue, "discard_max_bytes"))


def _named(stack: Stack, name: str) -> bool:
    """`xfs_scrub_all`, `btrfs-scrub@data`: named after the driver that serves the mount."""
    return stack.mount is not None and bool(stack.mount.fstype) and stack.mount.fstype in name


def _volumes(stack: Stack, name: str) -> bool:
    """e2scrub checks snapshots, so only what is on a volume, of the types that its check knows."""
    check = stack.filesystem.commands.get("check", "") if stack.filesystem else ""
    return "e2fsck" in check and any(stack.of_kind("lvm"))


def _disks(stack: Stack, name: str) -> bool:
    return any(leaf.kind == "disk" for leaf in stack.leaves)


WORKS = (
    Work(("raid-check", "mdcheck", "checkarray", "mdadm"), "reads whole arrays", _arrays),
    Work(("fstrim",), "discards all free space", _trims),
    Work(("e2scrub",), "checks whole file systems", _volumes),
    Work(("scrub",), "reads whole file systems", _named),
    Work(("smartd", "smartmontools"), "lets disks test themselves", _disks),
)


def judge(stack: Stack) -> Iterator[Finding]:
    """A note, since it is right to have them: they must not run while something is measured."""
    for name, enabled_by in stack.timers:
        work = next((work for work in WORKS if any(word in name for word in work.words)), None)
        if work is None or not work.concerns(stack, name):
            continue
        unit = name.endswith((".timer", ".service"))
        yield Finding(
            Severity.NOTE,
            name,
            f"{name} is enabled and {work.does} when its time has come",
            "nothing of that while something is measured",
            "what is measured meanwhile shares the disks with it",
            f"systemctl stop {name}" if unit else f"# until all is measured, comment it out in {enabled_by}",
        )


RULE = Rule(
    name="timers",
    title="timers that would disturb measurements",
    source="md(4), scrubbing; fstrim(8); e2scrub_all(8); systemd.timer(5)",
    needs=("timers",),
    judge=judge,
    caught=(),
)
