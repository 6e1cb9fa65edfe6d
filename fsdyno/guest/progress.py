"""Telling of long work: at once what begins, and every few seconds how far it is and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable

from fsdyno.units import show_seconds

Say = Callable[[str], None]
"""Takes a sentence for a person, which tells where the work stands now."""


class Step:
    """One step of known or unknown size."""

    def __init__(self, say: Say, what: str, total: float | None = None, *, every: float = 2.0) -> None:
        self._say = say
        self._what = what
        self._total = total
        self._every = every
        self._begun = self._told = time.monotonic()
        say(what)

    def at(self, done: float) -> None:
        """The step has done so much of its total; says so if the last word is two seconds old."""
        now = time.monotonic()
        if now - self._told < self._every:
            return
        self._told = now
        spent = now - self._begun
        if self._total and 0 < done < self._total:
            left = spent * (self._total - done) / done
            self._say(f"{self._what}: {done / self._total:.0%}, about {show_seconds(left)} left")
        else:
            self._say(f"{self._what}: {show_seconds(spent)} so far")
