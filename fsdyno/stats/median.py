"""The median of trials, with an interval that assumes nothing about their distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import comb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Median:
    """A median in the unit of its values. `low` and `high` are None where n is too small."""

    n: int
    value: float
    low: float | None
    high: float | None
    coverage: float | None  # of the interval: at least the confidence asked for


@cache
def order_statistics(n: int, confidence: float = 0.95) -> tuple[int, int, float] | None:
    """Ranks (from 1) of the values that bound the median, and the interval's exact coverage.

    The largest l with P(X < l) <= (1 - confidence) / 2 for X ~ Binomial(n, 1/2); the interval is
    [x(l), x(n + 1 - l)]. None if even the extremes do not reach `confidence` (n < 6 for 95 %).
    Source: David and Nagaraja, Order Statistics, 3rd ed., §7.1; values in docs/method.md.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence is between 0 and 1, not {confidence}")
    rank, below, tail = 0, 0, 0
    while rank < n // 2:
        tail += comb(n, rank)
        if tail / 2**n > (1 - confidence) / 2:
            break
        below, rank = tail, rank + 1
    if rank == 0:
        return None
    return rank, n + 1 - rank, 1 - 2 * (below / 2**n)


def median(values: Sequence[float] | NDArray[np.float64], confidence: float = 0.95) -> Median:
    """The median of one value per trial. Raises ValueError if there is none."""
    ordered = sorted(float(v) for v in values)
    n = len(ordered)
    if n == 0:
        raise ValueError("there is no median of nothing")
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    ranks = order_statistics(n, confidence)
    if ranks is None:
        return Median(n, middle, None, None, None)
    return Median(n, middle, ordered[ranks[0] - 1], ordered[ranks[1] - 1], ranks[2])
