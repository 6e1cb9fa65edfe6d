"""Journals smaller than mkfs makes them today."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.evidence import ready
from fsdyno.audit.questions import place
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack
from fsdyno.units import show_bytes


def judge(stack: Stack) -> Iterator[Finding]:
    """Against the smallest that today's mkfs would give a device of this size; the agent knows it by type."""
    upkeep = stack.filesystem.upkeep if stack.filesystem else {}
    found, usual = upkeep.get("journal"), upkeep.get("journal_usual")
    if found is None or usual is None or found >= usual:
        return
    yield Finding(
        Severity.ADVICE,
        place(stack),
        f"a journal of {show_bytes(found)}",
        f"{show_bytes(usual)} and more, as mkfs makes it today",
        "many changes of names wait until a small journal has room again",
        "# back up, then make it anew with today's mkfs; a journal cannot grow while it is in use",
    )


RULE = Rule(
    name="journal-size",
    title="size of the journal",
    source="xfsprogs' mkfs.xfs, which makes 64 MiB and more since release 5.15; "
    "ext2fs_default_journal_size of e2fsprogs; mke2fs(8), -J size",
    needs=("superblock",),
    judge=judge,
    caught=("small-log",),
    evidence=ready.JOURNAL,
)
