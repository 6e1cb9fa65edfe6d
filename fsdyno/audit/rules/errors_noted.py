"""Errors that the kernel met in the file system's own data and noted on the medium."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.questions import place
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack


def judge(stack: Stack) -> Iterator[Finding]:
    """The count is kept until a check clears it."""
    system = stack.filesystem
    errors = system.upkeep.get("errors", 0) if system else 0
    if system and errors > 0:
        yield Finding(
            Severity.DANGER,
            place(stack),
            f"{errors} error{'s' if errors > 1 else ''} noted in the superblock",
            "none",
            "its own structures were found damaged: whoever writes on may damage more",
            system.commands.get("check", "# unmount it, and check it with the program of its type"),
        )


RULE = Rule(
    name="errors-noted",
    title="errors noted in the superblock",
    source="Linux Documentation/filesystems/ext4/super.rst (s_error_count); tune2fs(8), -e",
    needs=("superblock",),
    judge=judge,
    caught=("noted-errors",),
)
