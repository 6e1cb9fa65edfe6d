"""The effect where a ratio says nothing: counts may be 0, and nothing divides by that.

An aligned array reads nothing before it writes; one that is not reads a third of what is written. The paired
difference with its t interval (Student 1908) tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fsdyno.stats.ratio import t_half_width

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Difference:
    """a - b over `n` rounds; no interval below 2 rounds. Counts that never vary have one of no width."""

    n: int
    value: float
    low: float | None
    high: float | None
    confidence: float

    @property
    def apart(self) -> bool:
        """Whether the interval excludes equality."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def difference(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Difference | None:
    """The difference of paired values; None without a pair, or if a value is not finite."""
    import numpy as np

    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.shape != y.shape:
        raise ValueError(f"{x.size} values cannot be paired with {y.size}")
    d = x - y
    if d.size == 0 or not np.all(np.isfinite(d)):
        return None
    mean, half = float(d.mean()), t_half_width(d, confidence)
    low, high = (None, None) if half is None else (mean - half, mean + half)
    return Difference(int(d.size), mean, low, high, confidence)
