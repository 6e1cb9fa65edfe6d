"""What a campaign tells while it runs. It draws only when an event comes, since it shares the machine
with the measurement: once a second at most during a timed phase.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from fsdyno.rig import Event


@dataclass(frozen=True)
class Header:
    """What is known before the first trial."""

    question: str
    campaign: str
    store: str
    cells: int
    points: int
    rounds: int
    place: str  # where the trials run, and why there
    left_out: list[tuple[str, str]]  # cell, why
    space: int  # bytes
    seconds: float
    how: str  # what the estimate rests on
    notes: list[str]
    resumed: int  # rounds that were complete already; -1: a new campaign


@dataclass(frozen=True)
class Step:
    """The trial that runs."""

    round: int
    rounds: int
    number: int  # of all trials, from 1
    trials: int
    cell: str
    phases: int


@dataclass
class Tally:
    """Times measured so far, for the estimate of what is left."""

    guess: float  # of a trial, before anything is measured, s
    seconds: dict[int, list[float]] = field(default_factory=dict)

    def add(self, cell: int, seconds: float) -> None:
        """A trial took so long."""
        self.seconds.setdefault(cell, []).append(seconds)

    def mean(self, cell: int) -> float:
        """What a trial of a cell takes: its own mean; before it ran, the mean of the other cells and
        of the guess, since a cell alone may be far from typical."""
        means = {index: sum(times) / len(times) for index, times in self.seconds.items()}
        return means.get(cell, (self.guess + sum(means.values())) / (1 + len(means)))

    def left(self, cells: list[int]) -> float:
        """Seconds that trials of these cells will take."""
        return sum(self.mean(cell) for cell in cells)


class Progress(Protocol):
    """Somebody who is told. Shown by fsdyno.campaign.screen."""

    def begin(self, header: Header) -> None:
        """Before the first trial."""

    def trial(self, step: Step, left: float) -> None:
        """A trial begins; `left` is the estimate of all that remains, s."""

    def event(self, event: Event) -> None:
        """An event of the running trial."""

    def done(self, step: Step, outcome: str, why: str | None, suspect: list[str], left: float) -> None:
        """A trial ended."""

    def say(self, text: str) -> None:
        """Something a person should know."""

    def finish(self) -> None:
        """After the last trial."""
