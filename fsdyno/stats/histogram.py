"""Latency histograms: merging and quantiles.

The bins are fio's: 64 sub-buckets per octave, the first 128 values exact, then each bin below 1/64 of
its lower edge wide (agent/spec/src/histogram.rs; fio `stat.c`, `plat_idx_to_val`). Percentiles come
from merged histograms and are never averaged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

SUB_BUCKETS = 64


def lower_edge(index: int) -> int:
    """The lowest value of a bin, ns."""
    if index < 2 * SUB_BUCKETS:
        return index
    return (SUB_BUCKETS + index % SUB_BUCKETS) << (index // SUB_BUCKETS - 1)


def midpoint(index: int) -> float:
    """The value that stands for a bin, ns: exact below 128, else the middle, as fio prints it."""
    if index < 2 * SUB_BUCKETS:
        return float(index)
    return lower_edge(index) + (1 << (index // SUB_BUCKETS - 1)) / 2


@dataclass(frozen=True)
class Histogram:
    """A distribution in nanoseconds; `bins` maps a bin's index to its count."""

    count: int = 0
    sum: int = 0
    min: int = 0
    max: int = 0
    bins: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def from_wire(wire: dict[str, Any]) -> Histogram:
        """From the event's form."""
        bins = {int(i): int(c) for i, c in wire["bins"]}
        return Histogram(int(wire["count"]), int(wire["sum"]), int(wire["min"]), int(wire["max"]), bins)

    @staticmethod
    def merged(parts: Iterable[Histogram]) -> Histogram:
        """The distribution of all values of `parts` together; exact, in any order."""
        count = total = high = 0
        low: int | None = None
        bins: dict[int, int] = {}
        for part in parts:
            if not part.count:
                continue
            count += part.count
            total += part.sum
            low = part.min if low is None else min(low, part.min)
            high = max(high, part.max)
            for index, n in part.bins.items():
                bins[index] = bins.get(index, 0) + n
        return Histogram(count, total, low or 0, high, bins)

    @property
    def mean(self) -> float:
        """Arithmetic mean, ns; exact, from the sum."""
        return self.sum / self.count if self.count else float("nan")

    def quantile(self, q: float) -> float:
        """The value, ns, that a share `q` (0 to 1) of the operations does not exceed.

        Nearest rank: the middle of the bin that holds the ceil(q n)-th smallest value, kept within the
        true minimum and maximum. The error is below 1/128 of the value. NaN if empty.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile is between 0 and 1, not {q}")
        if not self.count:
            return float("nan")
        rank, seen = max(1, ceil(q * self.count - 1e-9)), 0
        for index in sorted(self.bins):
            seen += self.bins[index]
            if seen >= rank:
                return min(max(midpoint(index), float(self.min)), float(self.max))
        return float(self.max)
