"""What the store hands out: plain values, named as in design.md §2."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def canonical(value: Any) -> str:
    """JSON with one spelling per value, fit for keys and hashes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True)
class Metric:
    """What a sample means; comes from the agent's `describe`, never guessed from a name."""

    name: str
    unit: str
    direction: str  # higher | lower | neither
    version: int
    definition: str


@dataclass(frozen=True)
class Cell:
    """One combination of the matrix. `excluded` is an outcome if it was left out before the start."""

    index: int
    name: str
    label: Any  # axis -> value
    spec: dict[str, Any]
    what: str
    excluded: str | None = None
    reason: dict[str, Any] | None = None


@dataclass(frozen=True)
class CampaignInfo:
    """A campaign with its cells and metrics."""

    id: str
    source: str  # measured | imported | published
    name: str
    question: str
    plan_text: str
    origin: str
    version: str
    rounds: int
    seed: int
    started: float
    ended: float | None
    status: str  # running until `finish`
    points: list[dict[str, Any]]
    reference: dict[str, Any]
    where: dict[str, Any]
    where_hash: str
    describe: dict[str, Any]
    survey: dict[str, Any]
    hello: dict[str, Any] | None
    cells: list[Cell]
    metrics: dict[str, Metric]
    n: int = field(repr=False)  # the store's own key


@dataclass(frozen=True)
class Trial:
    """One execution of a cell."""

    id: str
    campaign: str
    cell: int
    round: int
    position: int
    attempt: int
    outcome: str
    reason: dict[str, Any] | None
    flags: list[dict[str, Any]]
    started: float
    ended: float
    superseded: bool
    driver: str | None
    where: dict[str, Any]  # place, kernel, boot, …; of a guest also accelerator, cpus, memory
    where_hash: str
    made: str | None  # hash of *what* and of what mkfs made of it
    stood: dict[str, Any]  # what mkfs made, alignment: `stood.Stood.facts`
    n: int = field(repr=False)

    @property
    def emulated(self) -> bool:
        """Whether its CPUs were emulated: its counts are true, its times are an emulator's."""
        return self.where.get("accelerator") == "tcg"


@dataclass(frozen=True)
class PhaseNote:
    """A phase that was not simply ok: another outcome, or doubts."""

    trial: str
    cell: int
    round: int
    phase: str
    point: dict[str, Any]
    outcome: str
    reason: dict[str, Any] | None
    flags: list[dict[str, Any]]


@dataclass(frozen=True)
class Quantity:
    """All samples of one metric of one phase at one point: parallel arrays, one entry per trial.

    Ordered by trial as recorded. Superseded, cancelled and lost trials are not among them.
    """

    phase: str
    kind: str
    load: str | None
    point: dict[str, Any]
    metric: str
    ordinal: int
    cells: NDArray[np.int64]
    rounds: NDArray[np.int64]
    values: NDArray[np.float64]
    trials: NDArray[np.int64]  # `Trial.n`
