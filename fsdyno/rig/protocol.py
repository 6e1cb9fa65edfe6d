"""What every line of the agent must satisfy, whatever else it says.

Checked: JSON objects, the envelope's fields, sequence numbers without gaps, the version of the
protocol, the trial's identity, and the shape that the agent's own schema gives to each kind of event.
Not checked: kinds of events that are unknown here, and further fields; they are kept and passed on, so
that a newer agent can say more.
"""

from __future__ import annotations

import json
from typing import Any

from fsdyno.rig.shape import Shape

PROTOCOL = 1
"""The wire format that this side understands."""

MAX_LINE = 16 << 20
"""Longest line that is read, bytes. The largest honest ones (a phase's histograms and time series, a
piece of an artefact) stay below 1 MiB."""

Event = dict[str, Any]
"""One line of the agent: an `Envelope` of the waist, as a dict."""


class Violation(Exception):
    """The agent broke the protocol. `evidence` is the line that shows it, shortened."""

    def __init__(self, message: str, line: bytes = b"") -> None:
        super().__init__(message)
        self.message = message
        self.evidence = _shorten(line)

    def __str__(self) -> str:
        return f"{self.message}: {self.evidence}" if self.evidence else self.message


class Reader:
    """Turns lines into events and remembers what has to hold between them."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._next: dict[tuple[str, str], int] = {}

    def read(self, line: bytes, *, trial: str | None) -> Event:
        """The event of a line.

        `trial` is the trial that runs, or None between trials. Raises `Violation`.
        """
        if len(line) >= MAX_LINE:
            raise Violation(f"a line longer than {MAX_LINE >> 20} MiB", line)
        if not line.endswith(b"\n"):
            raise Violation("the last line is cut off", line)
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            raise Violation("a line that is no JSON", line) from None
        if not isinstance(event, dict):
            raise Violation("a line that is no JSON object", line)
        for key, kind in (("seq", int), ("from", str), ("boot", str), ("at_ns", int), ("event", str)):
            if not isinstance(event.get(key), kind):
                raise Violation(f"an event without a proper `{key}`", line)
        self._check_sequence(event, line)
        said = event.get("trial")
        if said is not None and said != trial:
            raise Violation(f"an event of trial {said!r}, but {trial!r} runs", line)
        if event["event"] == "hello" and event.get("protocol") != PROTOCOL:
            raise Violation(f"protocol {event.get('protocol')!r}, but only {PROTOCOL} is understood", line)
        if flaw := self._shape.flaw(event):
            raise Violation(f"an event that is not as the schema promises: {event['event']}{flaw}")
        return event

    def _check_sequence(self, event: Event, line: bytes) -> None:
        speaker = (event["from"], event["boot"])
        wanted = self._next.get(speaker, 0)
        if event["seq"] != wanted:
            raise Violation(f"event {event['seq']} where {wanted} was due: lines are missing", line)
        self._next[speaker] = wanted + 1


def _shorten(line: bytes, limit: int = 200) -> str:
    text = line[: 4 * limit].decode("utf-8", "replace").strip()
    return text if len(text) <= limit else text[:limit] + "…"
