"""Work on disks that the host begins by itself, and that would fall into a measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fsdyno.audit import shell
from fsdyno.audit.questions import REDUNDANT, few, number, text
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack


@dataclass(frozen=True)
class Work:
    """What timers do that have one of these words in their names, or in the file that enables them, and
    whether one of a name concerns a stack."""

    words: tuple[str, ...]
    does: str
    concerns: Callable[[Stack, str], bool]


def _arrays(stack: Stack, name: str) -> bool:
    """Where nothing is stored twice there is nothing to check."""
    return any(text(layer.facts, "level") in REDUNDANT for layer in stack.of_kind("md"))


def _trims(stack: Stack, name: str) -> bool:
    return stack.mount is not None and bool(stack.top and number(stack.top.queue, "discard_max_bytes"))


def _volumes(stack: Stack, name: str) -> bool:
    """e2scrub checks snapshots of volumes, of types whose superblock notes the last check: it sets that."""
    return bool(stack.filesystem and "checked" in stack.filesystem.upkeep) and any(stack.of_kind("lvm"))


def _named(stack: Stack, name: str) -> bool:
    """Other scrubs are named after the driver that serves the mount."""
    return stack.mount is not None and bool(stack.mount.fstype) and stack.mount.fstype in name


def _disks(stack: Stack, name: str) -> bool:
    return any(leaf.kind == "disk" for leaf in stack.leaves)


WORKS = (
    # Debian's check of arrays; its namesake in cron.daily looks for missing members only.
    Work(("raid-check", "mdcheck", "checkarray", "cron.d/mdadm"), "read whole arrays", _arrays),
    Work(("fstrim",), "discard all free space", _trims),
    Work(("e2scrub",), "check whole volumes", _volumes),
    Work(("scrub",), "read whole file systems", _named),
    Work(("smartd", "smartmontools"), "let disks test themselves", _disks),
)


def judge(stack: Stack) -> Iterator[Finding]:
    """A note for each kind of work, since it is right to have it: not while something is measured."""
    by_work: dict[Work, list[tuple[str, str]]] = {}
    for name, enabled_by in stack.timers:
        work = next((work for work in WORKS if any(w in name or w in enabled_by for w in work.words)), None)
        if work is not None and work.concerns(stack, name):
            by_work.setdefault(work, []).append((name, enabled_by))
    for work, timers in by_work.items():
        units = [name for name, _ in timers if name.endswith((".timer", ".service"))]
        jobs = [enabled_by for name, enabled_by in timers if name not in units]
        stop = f"systemctl stop {' '.join(map(shell.word, units))}"
        yield Finding(
            Severity.NOTE,
            timers[0][0],
            f"{few([*units, *jobs])} may {work.does} at any time",
            "nothing of that while something is measured",
            "whatever is measured meanwhile shares the disks with it",
            stop if units else f"# comment it out meanwhile: {few(jobs)}",
        )


RULE = Rule(
    name="timers",
    title="timers that would disturb measurements",
    source="md(4), scrubbing; fstrim(8); e2scrub_all(8); smartd(8); systemd.timer(5)",
    needs=("timers",),
    judge=judge,
    caught=("timers",),
)
