"""Errors that a person caused or can mend: what happened, where, and what to do instead.

Everything that fsdyno knows to go wrong is a `UserError` with an exit code; the command line prints
it and never a traceback. The codes are documented in docs/cli.md.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path


class Exit(IntEnum):
    """Exit codes of the `fsdyno` command."""

    OK = 0
    INTERNAL = 1  # a defect of fsdyno: please report
    USAGE = 2  # wrong command line
    PLAN = 3  # the plan file is wrong
    CANNOT = 4  # this machine cannot: missing tool, kernel feature, root, space
    BUSY = 5  # another campaign measures on this rig
    UNSAFE = 6  # a device was refused
    STORE = 7  # the store cannot be used
    AGENT = 8  # the agent broke the protocol or died
    INCOMPLETE = 9  # the campaign ended, but some trials are not ok
    TEARDOWN = 10  # a stack could not be taken down: the rig needs a person
    ADVICE = 11  # an audit found something to mend
    DANGER = 12  # an audit found what may lose data
    INTERRUPTED = 130  # Ctrl-C


class UserError(Exception):
    """An error with its place and its remedy.

    `where` is a file with line, a key or an option; `advice` says what to write or do instead.
    """

    def __init__(
        self, message: str, *, code: Exit, where: str | None = None, advice: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.where = where
        self.advice = advice

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        remedy = f"\n  {self.advice}" if self.advice else ""
        return f"{place}{self.message}{remedy}"


def unwritten(path: Path, error: OSError) -> UserError:
    """The error for a file that could not be written."""
    return UserError(
        f"cannot be written: {error.strerror or error}",
        code=Exit.CANNOT,
        where=str(path),
        advice="name a file in a folder that you may write",
    )


def nearest(word: str, known: list[str]) -> str | None:
    """The known word that a typo most likely meant, or None."""
    from difflib import get_close_matches

    found = get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else None
