"""File systems that nobody has checked for long, by their own limits or for years."""

from __future__ import annotations

import time
from collections.abc import Iterator

from fsdyno.audit.questions import place
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack

DAY = 86_400
YEAR = 365.25 * DAY
# With no limit of its own. Periodic checks are off by default today; two years are long for a disk.
LONGEST = 2 * YEAR


def judge(stack: Stack) -> Iterator[Finding]:
    """The limits of the superblock first: what it was told counts more than our two years."""
    system = stack.filesystem
    if system is None:
        return
    upkeep = system.upkeep
    mounts, most = upkeep.get("mounts"), upkeep.get("most_mounts")
    checked, interval = upkeep.get("checked") or 0, upkeep.get("check_interval")
    age = stack.taken - checked if checked > 0 else 0
    if age < -DAY:
        found = f"last checked on {_date(checked)}, which is in the future"
        why = "a clock was or is wrong, so nobody knows when it was checked"
        yield _finding(stack, found, "a date of the past", why)
        return
    why = "damage that nobody has met yet grows; and the check may come at the next boot, unasked"
    if mounts is not None and most is not None and mounts >= most:
        yield _finding(stack, f"mounted {mounts} times since the last check", f"{most} times at most", why)
    elif interval is not None and age > interval:
        found = f"last checked on {_date(checked)}, {_long(age)} ago"
        yield _finding(stack, found, f"every {_long(interval)}, as its superblock says", why)
    elif most is None and interval is None and age > LONGEST:
        found = f"last checked on {_date(checked)}, {_long(age)} ago, and no limit is set"
        yield _finding(stack, found, f"every {_long(LONGEST)}", "damage that nobody has met yet grows")


def _finding(stack: Stack, found: str, expected: str, why: str) -> Finding:
    commands = stack.filesystem.commands if stack.filesystem else {}
    command = commands.get("check", "# unmount it, and check it with the program of its type")
    return Finding(Severity.ADVICE, place(stack), found, expected, why, command)


def _date(seconds: int) -> str:
    try:
        return time.strftime("%Y-%m-%d", time.gmtime(seconds))
    except (OverflowError, OSError, ValueError):
        return f"second {seconds}"


def _long(seconds: float) -> str:
    if seconds < YEAR:
        return f"{seconds / DAY:.0f} days"
    return f"{seconds / YEAR:.1f}".removesuffix(".0") + " years"


RULE = Rule(
    name="overdue-check",
    title="last check",
    source="tune2fs(8), -c and -i; two years without a limit are our threshold",
    needs=("superblock",),
    judge=judge,
    caught=("mounts-exceeded", "unchecked-years"),
)
