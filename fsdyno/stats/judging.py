"""May times be judged? Where the CPUs are emulated, or where the members of an array are files on one disk,
a time shows the emulator or the sharing, not the stack.

There a phase is judged by time only if it was bound by its devices: the CPUs busy for less than half of
what it could use (design.md §4). Counts (requests, bytes, flushes) do not hang on the speed of a machine and
are always judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

DEVICE_BOUND = 0.5
"""Share of the CPU time below which a phase waits for its devices."""

_TIMED = ("s", "1/s", "B/s")

Doubtful = Literal["emulated", "shared"]
"""What makes a time doubtful: emulated CPUs, or several devices that are files on one disk."""


@dataclass(frozen=True)
class Ground:
    """What a cell was measured on."""

    emulated: bool = False
    shared: bool = False


def timed(unit: str) -> bool:
    """Whether a metric of this unit is a time or a rate, and so depends on the speed of the machine."""
    return unit in _TIMED


def device_bound(busy: ArrayLike) -> bool:
    """Whether a phase waited for its devices: the median of its trials' busy shares is under a half. False
    without any: what is not known binds nothing."""
    import numpy as np

    shares = np.asarray(busy, dtype=np.float64)
    return bool(shares.size) and bool(np.median(shares) < DEVICE_BOUND)


def unjudged(unit: str, ground: Ground, busy: ArrayLike) -> Doubtful | None:
    """Why a metric of this unit cannot be judged, or None if it can.

    `busy` holds the busy share of the phase in each trial of the cell.
    """
    if not timed(unit) or not (ground.emulated or ground.shared) or device_bound(busy):
        return None
    return "emulated" if ground.emulated else "shared"
