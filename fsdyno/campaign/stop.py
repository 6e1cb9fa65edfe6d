"""Ctrl-C: the running trial ends after its stack is down, and nothing is left behind.

The first signal cancels the trial. The second kills the agent; what it leaves is undone by `clean`.
"""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any

from fsdyno.interrupt import tell
from fsdyno.rig import RunSession

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """While entered, signals ask to stop instead of ending the program. Entered before an agent is
    started, and left when everything is undone."""

    def __init__(self) -> None:
        self._session: RunSession | None = None
        self._before: dict[int, Any] = {}
        self.asked = 0

    def watch(self, session: RunSession) -> None:
        """The session to cancel from now on; at once if it was asked for while the agent started."""
        self._session = session
        if self.asked:
            session.cancel()

    def __enter__(self) -> Stop:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.asked += 1
        if self.asked == 1:
            tell("stopping: the running trial is cancelled and its stack taken down; once more to hurry")
            if self._session:
                self._session.cancel()
        elif self._session:
            self._session.abort()
