"""The effect: a ratio of two configurations, paired by round.

What moves a whole round (a busy neighbour, a warm room) moves both members of a pair and cancels. The
t interval decides; the Hodges-Lehmann estimate with its signed-rank interval stands beside it, for it
trusts no single wild trial: if the two disagree, the reader must be told.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from math import sqrt
from typing import TYPE_CHECKING

from fsdyno.stats import ENOUGH_ROUNDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

MOST_ROUNDS = 100  # of the robust twin: it guards few rounds against one wild one, and costs n squared


@dataclass(frozen=True)
class Ratio:
    """a / b over `n` rounds.

    Intervals are None where n is too small (2 for t, 6 for the robust one); the robust estimate is None
    beyond `MOST_ROUNDS` rounds.
    """

    n: int
    value: float  # geometric mean of the rounds' ratios
    low: float | None
    high: float | None
    robust: float | None  # Hodges-Lehmann
    robust_low: float | None
    robust_high: float | None
    confidence: float

    @property
    def apart(self) -> bool:
        """Whether the t interval excludes equality."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def clear(self) -> bool:
        """Whether it is apart and rests on enough rounds to be more than a pilot."""
        return self.apart and self.n >= ENOUGH_ROUNDS

    @property
    def disputed(self) -> bool:
        """Whether exactly one of the two intervals excludes equality."""
        if self.robust_low is None or self.robust_high is None or self.low is None:
            return False
        return self.apart == (self.robust_low <= 1 <= self.robust_high)


def paired(
    rounds_a: ArrayLike, values_a: ArrayLike, rounds_b: ArrayLike, values_b: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The values of the rounds that have both, in order of rounds; a round counts once on each side."""
    import numpy as np

    _, at_a, at_b = np.intersect1d(np.asarray(rounds_a), np.asarray(rounds_b), return_indices=True)
    return np.asarray(values_a, dtype=np.float64)[at_a], np.asarray(values_b, dtype=np.float64)[at_b]


def ratio(a: ArrayLike, b: ArrayLike, confidence: float = 0.95, *, twin: bool = True) -> Ratio | None:
    """The ratio of paired positive values; None without a pair, or if a value is not above 0.

    `twin` false leaves the robust estimate out.

    d = ln a - ln b; exp(mean d), interval exp(mean d -+ t(n - 1) s / sqrt n) (Student 1908; on the log
    scale because effects multiply); Hodges and Lehmann 1963: the median of the Walsh averages
    (d_i + d_j) / 2, i <= j, with the interval that inverts Wilcoxon's signed-rank test
    (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd ed., §3.3).
    """
    import numpy as np

    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.shape != y.shape:
        raise ValueError(f"{x.size} values cannot be paired with {y.size}")
    if x.size == 0 or not (
        np.all(x > 0) and np.all(y > 0) and np.all(np.isfinite(x)) and np.all(np.isfinite(y))
    ):
        return None
    d = np.log(x) - np.log(y)
    mean, half = float(d.mean()), t_half_width(d, confidence)
    robust, robust_low, robust_high = _hodges_lehmann(d, confidence) if twin else (None, None, None)
    return Ratio(
        n=int(d.size),
        value=float(np.exp(mean)),
        low=None if half is None else float(np.exp(mean - half)),
        high=None if half is None else float(np.exp(mean + half)),
        robust=robust,
        robust_low=robust_low,
        robust_high=robust_high,
        confidence=confidence,
    )


def t_half_width(d: NDArray[np.float64], confidence: float) -> float | None:
    """Half the width of Student's interval for the mean of `d`; None below 2 values."""
    if d.size < 2:
        return None
    from scipy.special import stdtrit  # Student's t quantile, without the weight of scipy.stats

    t = float(stdtrit(d.size - 1, (1 + confidence) / 2))
    return t * float(d.std(ddof=1)) / sqrt(d.size)


def _hodges_lehmann(
    d: NDArray[np.float64], confidence: float
) -> tuple[float | None, float | None, float | None]:
    """The ratio's robust estimate with its interval. Selects instead of sorting: n (n + 1) / 2 averages."""
    import numpy as np

    if d.size > MOST_ROUNDS:
        return None, None, None
    walsh = walsh_averages(d)
    rank = signed_rank(d.size, confidence)
    lower, upper = (walsh.size - 1) // 2, walsh.size // 2
    wanted = [lower, upper] if rank is None else [rank - 1, lower, upper, walsh.size - rank]
    walsh.partition(wanted)
    middle = float(np.exp((walsh[lower] + walsh[upper]) / 2))
    if rank is None:
        return middle, None, None
    return middle, float(np.exp(walsh[rank - 1])), float(np.exp(walsh[-rank]))


def walsh_averages(d: NDArray[np.float64]) -> NDArray[np.float64]:
    """All (d_i + d_j) / 2 with i <= j, in no order. n (n + 1) / 2 of them."""
    i, j = _pairs(d.size)
    return (d[i] + d[j]) / 2


@lru_cache(maxsize=8)
def _pairs(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    import numpy as np

    return np.triu_indices(n)


@cache
def signed_rank(n: int, confidence: float = 0.95) -> int | None:
    """The rank k (from 1) of the Walsh average that bounds the robust interval from below.

    The largest k with P(W <= k - 1) <= (1 - confidence) / 2 for Wilcoxon's W+ of n differences; exact by
    counting subsets of 1..n up to n = 50, then by the normal approximation. None if there is none (n < 6
    for 95 %).
    """
    alpha = (1 - confidence) / 2
    if n > 50:
        from scipy.special import ndtri

        mean, variance = n * (n + 1) / 4, n * (n + 1) * (2 * n + 1) / 24
        return max(1, int(mean + float(ndtri(alpha)) * variance**0.5 + 0.5))
    ways = [1] + [0] * (n * (n + 1) // 2)
    for step in range(1, n + 1):
        for total in range(len(ways) - 1, step - 1, -1):
            ways[total] += ways[total - step]
    tail = rank = 0
    while rank < len(ways) and (tail + ways[rank]) / 2**n <= alpha:
        tail += ways[rank]
        rank += 1
    return rank or None
