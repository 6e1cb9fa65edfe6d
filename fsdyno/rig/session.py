"""A long-lived agent that runs trials one after another.

Fault model: the agent may say nothing any more, say nonsense, stop in the middle, refuse, or die; and
the user may press Ctrl-C at any moment. In each case this side ends with the trial's events so far,
a reason with evidence, and no agent that still runs. Waiting costs nothing: while a timed phase runs,
this process sleeps, for it shares the machine with the measurement.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from fsdyno.errors import Exit, UserError
from fsdyno.rig.protocol import MAX_LINE, Event, Reader, Violation
from fsdyno.rig.shape import Shape

REFUSALS = {
    "bad_request": Exit.PLAN,
    "busy": Exit.BUSY,
    "no_root": Exit.CANNOT,
    "unsafe": Exit.UNSAFE,
    "environment": Exit.CANNOT,
}

RIG = "rig"
"""Who speaks for a trial as a whole; `guest` is the other."""


@dataclass(frozen=True)
class Limits:
    """How long is waited for what, s."""

    hello: float = 60.0
    """From start to hello."""
    settle: float = 60.0
    """From hello to `cleaned` or a refusal: taking the rig and undoing what dead agents left."""
    silence: float = 30.0
    """Between two lines within a trial; heartbeats come once a second."""
    grace: float = 120.0
    """Beyond a trial's deadline, and after a cancel or the end of input: taking the stack down."""


@dataclass(frozen=True)
class TrialReply:
    """What came back for one trial. `outcome` is that of its `end`, or `lost`."""

    outcome: str
    events: list[Event] = field(repr=False)
    reason: dict[str, str] | None = None
    """`message` and maybe `advice`, where the outcome is not ok."""
    refusal: UserError | None = None
    """What the rig's `error` said, where it refused this trial and went on."""


class _Closed:
    """The agent's output ended."""


class _Cancel:
    """Somebody asked to stop."""


class RunSession:
    """A running agent. Made by `Rig.run`; to be closed. Usable after `lost` no more (see `alive`)."""

    def __init__(self, argv: Sequence[str], limits: Limits, shape: Shape, *, privileged: bool) -> None:
        self._limits = limits
        self._privileged = privileged
        self._reader = Reader(shape)
        # SimpleQueue: its put may be called from a signal handler.
        self._lines: queue.SimpleQueue[bytes | type[_Closed] | type[_Cancel]] = queue.SimpleQueue()
        self._stderr: deque[str] = deque(maxlen=20)
        self.alive = True
        self._aborted = False
        try:
            # A session of its own, so that the terminal's Ctrl-C does not reach the agent.
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(
                f"the agent cannot be started: {error.strerror or error}", code=Exit.AGENT, where=argv[0]
            ) from None
        assert self._process.stdout and self._process.stderr
        for pump, stream in (
            (self._pump_lines, self._process.stdout),
            (self._pump_stderr, self._process.stderr),
        ):
            threading.Thread(target=pump, args=(stream,), daemon=True).start()
        self.hello, self.cleaned = self._open()

    def trial(
        self,
        trial_id: str,
        seed: int,
        spec: dict[str, Any],
        *,
        timeout: float,
        round: int = 0,
        on_event: Callable[[Event], None] = lambda event: None,
    ) -> TrialReply:
        """Runs one trial and returns when it has ended, one way or another.

        `timeout` is the trial's own limit, s; the agent keeps it, and this side enforces it after a
        grace. Guests are booted anew for each `round`. `on_event` sees each event as it comes. A trial that
        is refused has an outcome like others. Raises `UserError` if the rig itself refuses: with an `error`
        of no trial, or one that no end follows.
        """
        events: list[Event] = []
        try:
            self._send({"trial": {"trial": trial_id, "seed": seed, "round": round, "spec": spec}})
            return self._follow(trial_id, timeout, events, on_event)
        except Violation as violation:
            self.kill()
            if self._aborted:
                return TrialReply("cancelled", events, {"message": "stopped at once: the agent was killed"})
            if refusal := _refusal(events):
                raise refusal from None
            return TrialReply("lost", events, {"message": str(violation), "advice": self._last_words()})
        except BaseException:
            self.kill()
            raise

    def cancel(self) -> None:
        """Asks the running trial to end after taking its stack down. Safe in a signal handler."""
        self._lines.put(_Cancel)

    def abort(self) -> None:
        """Kills the agent without waiting; who waits for it notices. Safe in a signal handler."""
        self._aborted = True
        if self._process.returncode is not None:
            return  # its number may be another process's by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> bool:
        """Ends the agent: end of input, then, after a grace, SIGKILL. True if it went by itself and left
        nothing to undo; false also if somebody else had killed it."""
        if self.alive:
            self._close_input()
            with contextlib.suppress(subprocess.TimeoutExpired):
                whole = self._process.wait(self._limits.grace) == 0
                self.alive = False
                return whole
        self.kill()
        return False

    def kill(self) -> None:
        """Ends the agent at once. What it leaves is undone by `Rig.clean` or the next agent."""
        self.alive = False
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            except PermissionError:
                subprocess.run(
                    ["sudo", "-n", "kill", "-KILL", "--", f"-{self._process.pid}"],
                    capture_output=True,
                    check=False,
                )
        self._close_input()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            # A process stuck in the kernel cannot be killed; nothing more can be done from here.
            self._stderr.append("the agent does not die: it is stuck in the kernel")

    def _follow(
        self, trial_id: str, timeout: float, events: list[Event], on_event: Callable[[Event], None]
    ) -> TrialReply:
        now = time.monotonic()
        heard, deadline, cancelled = now, now + timeout + self._limits.grace, False
        while True:
            now = time.monotonic()
            if now >= deadline:
                what = "did not end after it was cancelled" if cancelled else "did not end within its time"
                raise Violation(f"the trial {what}")
            if now >= heard + self._limits.silence:
                raise Violation(f"the agent said nothing for {self._limits.silence:.0f} s")
            try:
                line = self._lines.get(timeout=min(deadline, heard + self._limits.silence) - now)
            except queue.Empty:
                continue
            if line is _Cancel:
                if not cancelled:
                    cancelled, deadline = True, min(deadline, now + self._limits.grace)
                    self._send({"cancel": {}})
                continue
            event = self._event(line, trial_id)
            heard = time.monotonic()
            events.append(event)
            on_event(event)
            if event["event"] == "error" and event["from"] == RIG and event.get("trial") is None:
                raise _refused(event)
            if event["event"] == "end" and event["from"] == RIG:  # a guest may end before its rig does
                return _reply(event, events)

    def _open(self) -> tuple[Event, Event]:
        """Hello, and what was cleaned when the rig was taken. Raises what a refusal says."""
        try:
            hello = self._first(self._limits.hello)
            if hello is None:
                raise Violation(f"the agent said no hello within {self._limits.hello:.0f} s")
            if hello["event"] != "hello":
                raise Violation(f"the agent began with {hello['event']!r} instead of hello")
            follows = self._first(self._limits.settle)
            if follows is None or follows["event"] != "cleaned":
                raise Violation("the agent did not say after hello that it has taken the rig")
            return hello, follows
        except Violation as violation:
            self.kill()
            raise UserError(
                f"the agent broke the protocol: {violation}", code=Exit.AGENT, advice=self._last_words()
            ) from None
        except BaseException:
            self.kill()
            raise

    def _first(self, limit: float) -> Event | None:
        """The next event, if it comes within `limit` s. Raises what a refusal says."""
        try:
            event = self._event(self._lines.get(timeout=limit), None)
        except queue.Empty:
            return None
        if event["event"] == "error":
            raise _refused(event)
        return event

    def _event(self, line: bytes | type[_Closed] | type[_Cancel], trial: str | None) -> Event:
        if not isinstance(line, bytes):
            raise Violation(f"the agent ended ({self._how_it_ended()})")
        return self._reader.read(line, trial=trial)

    def _send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin
        # If it died, the end of its output says so, after what it still had to say.
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(request, separators=(",", ":")).encode() + b"\n")
            self._process.stdin.flush()

    def _close_input(self) -> None:
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "it closed its output"
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit {code}"

    def _last_words(self) -> str:
        """What the agent wrote on standard error, as the advice that goes with a loss."""
        words = " | ".join(list(self._stderr)[-3:])
        return f"the agent's last words: {words}" if words else "it left no message"

    def _pump_lines(self, stream: IO[bytes]) -> None:
        while line := stream.readline(MAX_LINE):
            self._lines.put(line)
        self._lines.put(_Closed)

    def _pump_stderr(self, stream: IO[bytes]) -> None:
        while line := stream.readline(4096):
            self._stderr.append(line.decode("utf-8", "replace").strip())


def _reply(end: Event, events: list[Event]) -> TrialReply:
    outcome = end.get("outcome")
    if not isinstance(outcome, str):
        raise Violation("an `end` without an outcome", json.dumps(end).encode())
    return TrialReply(outcome, events, end.get("reason"), _refusal(events))


def _refusal(events: list[Event]) -> UserError | None:
    """What the rig refused of a trial. What a guest refuses is the guest's affair."""
    said = [event for event in events if event["event"] == "error" and event["from"] == RIG]
    return _refused(said[-1]) if said else None


def _refused(event: Event) -> UserError:
    """What an `error` event says, with its exit code."""
    return UserError(
        str(event.get("message", "the agent refused")),
        code=REFUSALS.get(str(event.get("refusal")), Exit.AGENT),
        advice=event.get("advice"),
    )
