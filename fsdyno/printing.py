"""Where everything printed passes through: what terminals obey is shown instead, and streams may fail.

A name or a question of a plan is text, never a command: control characters and those that change the
direction of writing are printed as escapes. Standard error only tells of progress, so losing it must not
stop a campaign; standard output is the answer, so losing it is an error, unless its reader just stopped.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from fsdyno.errors import Exit, UserError

if TYPE_CHECKING:
    from rich.console import Console

# C0 without tab and newline, DEL, C1; marks, embeddings, overrides and isolates of Unicode's UAX #9;
# the separators of lines and paragraphs.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF)


class ReaderLeft(Exception):
    """Who read standard output has seen enough. No `OSError`, since click ends the program at that."""


def visible(text: str) -> str:
    r"""The text with `\x1b` or `\u202e` in place of characters that a terminal would obey."""
    return _COMMANDS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"  # the latter also stands in JSON


def console(*, stderr: bool = False, file: IO[str] | None = None, **options: Any) -> Console:
    """A console of rich that obeys nothing but rich's own styles."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Careful(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                if segment.control or not _COMMANDS.search(segment.text):
                    yield segment
                else:
                    yield Segment(visible(segment.text), segment.style)

        def on_broken_pipe(self) -> None:
            raise ReaderLeft

    return Careful(stderr=stderr, file=file, **options)


def echo(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Prints plain text."""
    import click

    try:
        click.echo(visible(text) + end, err=err, nl=False)
    except BrokenPipeError:
        raise ReaderLeft from None


class _Lossy:
    """A stream whose loss is no error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def prepare() -> None:
    """Before anything is printed. Raises `UserError` if standard output is closed."""
    for number in (0, 2):  # a number that is free would be given to the next file that is opened
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    if not isinstance(sys.stderr, _Lossy):
        sys.stderr = cast(TextIO, _Lossy(sys.stderr))
    if sys.stdout is None:
        drop_stdout()
        raise UserError(
            "standard output is closed, so there is nowhere to write the answer",
            code=Exit.CANNOT,
            advice="leave out `>&-`, or write to a file or to /dev/null",
        )


def drop_stdout() -> None:
    """Sends what is still to be written nowhere, also what Python flushes at exit."""
    opened = os.open(os.devnull, os.O_WRONLY)
    if opened != 1:
        os.dup2(opened, 1)
        os.close(opened)


def lost(error: OSError, advice: str = "make room there, or write elsewhere") -> UserError | None:
    """The error for output that could not be written; None if this was another error."""
    if error.errno not in _LOST or error.filename is not None:
        return None
    return UserError(
        f"standard output cannot be written: {error.strerror}",
        code=Exit.CANNOT,
        advice=advice,
    )
