"""Which trial comes when: seeded permutations that do not depend on the Python version.

Every round is a complete set of cells in random order; its sweep points are in random order within
each trial. Both follow from the campaign's seed and the round's number alone, so a resume recreates
an interrupted round exactly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from fsdyno.plan.model import Plan


@dataclass(frozen=True)
class Round:
    """One complete set of cells."""

    number: int  # from 1
    order: list[int]  # cell indices
    point_orders: list[list[int]]  # by cell index: the order of the points in that cell's trial
    seed: int  # of data and offsets, the same for all cells


def rounds(plan: Plan, seed: int, n: int) -> list[Round]:
    """Rounds 1 to `n`. Asking for more later gives the same first ones."""
    return [round_of(len(plan.cells), len(plan.points), seed, number) for number in range(1, n + 1)]


def round_of(cells: int, points: int, seed: int, number: int) -> Round:
    """One round of so many cells and sweep points."""
    return Round(
        number=number,
        order=permutation(cells, f"{seed}/{number}/cells"),
        point_orders=[permutation(points, f"{seed}/{number}/points/{cell}") for cell in range(cells)],
        seed=next(_words(f"{seed}/{number}/data")) >> 1,  # fits a signed 64-bit column
    )


def permutation(n: int, key: str) -> list[int]:
    """A permutation of 0…n−1, each equally likely over keys (Fisher–Yates, Knuth vol. 2, 3.4.2 P)."""
    order = list(range(n))
    words = _words(key)
    for last in range(n - 1, 0, -1):
        other = _below(last + 1, words)
        order[last], order[other] = order[other], order[last]
    return order


def _below(limit: int, words: Iterator[int]) -> int:
    """A number below `limit`, without the bias that a plain remainder would have."""
    usable = 2**64 - 2**64 % limit
    return next(word for word in words if word < usable) % limit


def _words(key: str) -> Iterator[int]:
    """64-bit numbers from SHA-256 of the key and a counter."""
    counter = 0
    while True:
        digest = hashlib.sha256(f"{key}/{counter}".encode()).digest()
        yield from (int.from_bytes(digest[i : i + 8], "big") for i in range(0, 32, 8))
        counter += 1
