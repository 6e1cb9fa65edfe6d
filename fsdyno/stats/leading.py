"""Who leads: the honest core of an answer sentence.

Picking the best of k and then testing it as if it had been named before would find a winner among
equals. So the leader by median is compared with every other, paired by round, each interval at
confidence 1 - 0.05 / (k - 1) (Bonferroni); whoever it does not beat so shares the lead.
Where a value is 0, as counts may be, the pairs are compared by their difference.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from fsdyno.stats import ENOUGH_ROUNDS
from fsdyno.stats.difference import Difference, difference
from fsdyno.stats.median import median
from fsdyno.stats.ratio import Ratio, paired, ratio

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Leading(Generic[Key]):
    """The best by median; `shared` are the others that it does not clearly beat, best first.

    `ahead` is best over runner-up, both as values of the metric, at 95 %, None where one is 0; `rounds` is
    the smallest number of rounds in any comparison. With `pilot` true nothing is claimed, and `shared` is
    everybody.
    """

    best: Key
    runner_up: Key | None
    ahead: Ratio | None
    shared: list[Key]
    rounds: int
    pilot: bool


def leading(
    groups: Mapping[Key, tuple[NDArray[np.int64], NDArray[np.float64]]], direction: str
) -> Leading[Key] | None:
    """Who leads among `groups` (key -> rounds, values); None if there are none or no better direction."""
    if direction not in ("higher", "lower") or not groups:
        return None
    sign = -1 if direction == "higher" else 1
    ranked = sorted(groups, key=lambda key: sign * median(groups[key][1]).value)
    best, others = ranked[0], ranked[1:]
    if not others:
        n = len(groups[best][1])
        return Leading(best, None, None, [], n, n < ENOUGH_ROUNDS)
    confidence = 1 - 0.05 / len(others)
    pairs = {key: paired(*groups[best], *groups[key]) for key in others}
    compared: dict[Key, Ratio | Difference | None] = {
        key: ratio(*pair, confidence, twin=False) or difference(*pair, confidence)
        for key, pair in pairs.items()
    }
    rounds = min(0 if r is None else r.n for r in compared.values())
    pilot = rounds < ENOUGH_ROUNDS
    shared = [key for key in others if pilot or not _beats(compared[key], direction)]
    ahead = ratio(*pairs[others[0]], twin=False)
    return Leading(best, others[0], ahead, shared, rounds, pilot)


def _beats(found: Ratio | Difference | None, direction: str) -> bool:
    if found is None or not found.apart:
        return False
    equal = 1 if isinstance(found, Ratio) else 0
    return (found.value > equal) == (direction == "higher")
