"""Ctrl-C outside a campaign: the program ends at once with exit code 130, however often it is pressed.

An exception could surface anywhere, be swallowed, or meet a second Ctrl-C while it is being told, which
would end in a traceback. Nothing here needs to be undone: the store is whole at any moment, and an agent
that is asked a question has a session of its own and finishes by itself. A campaign, which does have
something to undo, catches signals itself (fsdyno.campaign.stop).
"""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType

from fsdyno.errors import Exit


def tell(text: str) -> None:
    """Writes a line to standard error. Safe in a signal handler: no buffers, no locks."""
    start = "\n" if os.isatty(2) else ""  # the terminal has echoed ^C
    with contextlib.suppress(OSError):
        os.write(2, f"{start}{text}\n".encode())


def install() -> None:
    """From now on Ctrl-C ends the program."""
    signal.signal(signal.SIGINT, _leave)


def ignore() -> None:
    """From now on Ctrl-C does nothing: the exit code is decided. While Python shuts down, a handler of
    ours would give way to the default, which kills."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave(number: int, frame: FrameType | None) -> None:
    tell("fsdyno: interrupted")
    os._exit(int(Exit.INTERRUPTED))
