"""Order: complete rounds, recreated exactly, without favourites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fsdyno.plan import Plan, rounds
from fsdyno.plan.order import permutation, round_of


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 2**63 - 1), st.integers(1, 1000))
def test_a_round_is_complete_and_follows_from_seed_and_number(
    cells: int, points: int, seed: int, number: int
) -> None:
    one = round_of(cells, points, seed, number)
    assert sorted(one.order) == list(range(cells))
    assert [sorted(order) for order in one.point_orders] == [list(range(points))] * cells
    assert 0 <= one.seed < 2**63
    assert one == round_of(cells, points, seed, number)


def test_a_recorded_seed_means_the_same_for_ever() -> None:
    """A change here would make recorded campaigns impossible to resume or repeat."""
    one = round_of(6, 4, 42, 1)
    assert one.order == [4, 5, 2, 3, 0, 1]
    assert one.point_orders[:2] == [[3, 1, 0, 2], [3, 1, 2, 0]]
    assert one.seed == 9111212476061515800


def test_rounds_are_numbered_from_one_and_more_can_be_asked_for(plan_of: Callable[[str], Plan]) -> None:
    plan = plan_of(
        'question = "?"\n[trial]\nstack.devices = []\nfilesystem = "tmpfs"\nphases = [{ mount = {} }]\n'
        "[matrix]\ndatasets.d.files = [1, 2, 3, 4, 5]\n"
    )
    few, more = rounds(plan, 9, 3), rounds(plan, 9, 8)
    assert [r.number for r in more] == list(range(1, 9))
    assert more[:3] == few
    assert len({tuple(r.order) for r in more}) > 1
    assert len({r.seed for r in more}) == 8
    assert all(a.seed != b.seed for a, b in pairwise(more))


def test_every_permutation_is_about_equally_likely() -> None:
    """Chi-squared against uniform over the 24 orders of four; 60 is beyond the 99.99 % quantile (23 df)."""
    n = 4800
    seen = Counter(tuple(permutation(4, f"{i}")) for i in range(n))
    assert len(seen) == 24
    assert sum((count - n / 24) ** 2 / (n / 24) for count in seen.values()) < 60
