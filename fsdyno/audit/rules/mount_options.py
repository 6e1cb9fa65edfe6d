"""Options of the mount that cost much, or that give up what one takes for granted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fsdyno.audit import shell
from fsdyno.audit.questions import is_read_only
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack


@dataclass(frozen=True)
class Costly:
    """An option as the kernel shows it, and what to say of it; `instead` is what a remount is given."""

    shown: str
    severity: Severity
    expected: str
    why: str
    instead: str | None


WRITING = (
    Costly("sync", Severity.ADVICE, "async", "every write waits until it is on the disk", "async"),
    Costly(
        "dirsync",
        Severity.ADVICE,
        "no dirsync",
        "every change of a directory waits until it is on the disk",
        None,
    ),
    Costly(
        "wsync",
        Severity.ADVICE,
        "no wsync",
        "every change of a name waits until it is in the log on the disk",
        None,
    ),
    Costly(
        "data=writeback",
        Severity.ADVICE,
        "data=ordered",
        "after a crash files may hold what other files left on the disk",
        None,
    ),
    Costly(
        "nointegrity",
        Severity.DANGER,
        "integrity",
        "nothing is written to the journal: after a crash it may be lost",
        "integrity",
    ),
)
# What is written to it or not: a device may be missing.
ANYWAY = "degraded"
# Drivers may show these too where the whole mount is synchronous.
PART_OF_SYNC = ("dirsync", "wsync")
NO_REPLAY = ("norecovery", "noload", "nolog", "nologreplay", "rescue=nologreplay")
LAZY_TIMES = ("relatime", "noatime", "lazytime")


def judge(stack: Stack) -> Iterator[Finding]:
    """Times of access count only where something is written."""
    mount = stack.mount
    if mount is None or not stack.layers:
        return
    point, shown = shell.word(mount.point), set(mount.options)
    if not is_read_only(stack):
        for option in WRITING:
            implied = option.shown in PART_OF_SYNC and "sync" in shown
            if option.shown in shown and not implied:
                command = f"mount -o remount,{option.instead} {point}"
                if option.instead is None:
                    command = shell.taken_out(option.shown, mount.point)
                found = f"mounted with {option.shown}"
                yield Finding(option.severity, mount.point, found, option.expected, option.why, command)
        if not shown.intersection(LAZY_TIMES):
            yield Finding(
                Severity.ADVICE,
                mount.point,
                "mounted with strictatime",
                "relatime (the kernel’s default) or noatime",
                "every read of a file writes the time of it",
                f"mount -o remount,relatime {point}",
            )
    if ANYWAY in shown:
        yield Finding(
            Severity.DANGER,
            mount.point,
            f"mounted with {ANYWAY}",
            "a mount that is refused where a device is missing",
            "a device may be missing: what it had has fewer copies, and what is written now too",
            f"# put the missing device back or replace it, and take {ANYWAY} out of the options of the mount",
        )
    for option_name in NO_REPLAY:
        if option_name in shown:
            yield Finding(
                Severity.ADVICE,
                mount.point,
                f"mounted with {option_name}",
                "a mount that replays the log",
                "what was in the log at the last crash is missing: files may be old or damaged",
                shell.taken_out(option_name, mount.point),
            )


RULE = Rule(
    name="mount-options",
    title="options of the mount",
    source="mount(8): sync, dirsync, relatime, nointegrity; ext4(5): data=writeback, norecovery; xfs(5): "
    "wsync, norecovery",
    needs=(),
    judge=judge,
    caught=("sync-mount",),
)
