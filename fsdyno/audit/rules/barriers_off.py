"""A file system that sends no flushes above a cache that loses its content when power fails."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit import shell
from fsdyno.audit.evidence import ready
from fsdyno.audit.questions import few, is_read_only, place, volatile_leaves
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack


def judge(stack: Stack) -> Iterator[Finding]:
    """Where every leaf is write through no flush would be sent anyway, and nothing is lost."""
    system, leaves = stack.filesystem, volatile_leaves(stack)
    if system is None or system.barriers is not False or not leaves or is_read_only(stack):
        return
    how = system.barriers_off_by or "no flush is sent"
    yield Finding(
        Severity.DANGER,
        place(stack),
        f"barriers are off ({how}), and {few([leaf.node for leaf in leaves])} cache writes",
        "flushes down to a volatile write cache, or no such cache",
        "when power fails, later writes may be on the disk and earlier ones not: all can be lost",
        system.commands.get("barriers_on") or _without_caches(leaves),
    )


def _without_caches(leaves: list[Layer]) -> str:
    """What to do where the type cannot be told to flush: all caches have to go, and those of files cannot."""
    disks = [shell.node(leaf) for leaf in leaves if leaf.kind == "disk"]
    others = [leaf.node for leaf in leaves if leaf.kind != "disk"]
    if others:
        return f"# take a type of file system that flushes: {few(others)} cannot do without a cache"
    how = "turn the caches of the disks themselves off, at the hypervisor or by"
    return f"# {how}: hdparm -W0 {' '.join(disks)}"


RULE = Rule(
    name="barriers-off",
    title="barriers off above a volatile write cache",
    source="Linux Documentation/block/writeback_cache_control.rst; ext4(5), barrier; "
    "measured: JFS sends no flush in 50 fsyncs",
    needs=("queue", "layer"),
    judge=judge,
    caught=("barriers-off", "jfs"),
    evidence=ready.BARRIERS_OFF,
)
