"""The paired difference, for counts that may be 0."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fsdyno.stats.difference import difference
from fsdyno.stats.leading import leading

counts = st.floats(0, 1e6)
pairs = st.lists(st.tuples(counts, counts), min_size=1, max_size=30)


def test_agrees_with_scipys_paired_t() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(1, 0.3, 12), rng.normal(0.8, 0.3, 12)
    found = difference(a, b)
    theirs = stats.ttest_rel(a, b)
    interval = theirs.confidence_interval(0.95)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.apart == (theirs.pvalue < 0.05)


@given(pairs)
def test_the_other_way_round_is_the_same_with_another_sign(values: list[tuple[float, float]]) -> None:
    a, b = [x for x, _ in values], [y for _, y in values]
    one, two = difference(a, b), difference(b, a)
    assert one is not None and two is not None
    assert one.value == pytest.approx(-two.value)
    assert one.apart == two.apart


def test_counts_that_never_vary_are_apart_or_equal() -> None:
    zero, third = [0.0] * 6, [1 / 3] * 6
    apart, equal = difference(zero, third), difference(third, third)
    assert apart is not None and apart.apart
    assert equal is not None and not equal.apart


def test_one_round_knows_no_spread_and_none_knows_nothing() -> None:
    one = difference([0.0], [1.0])
    assert one is not None and one.low is None and not one.apart
    assert difference([], []) is None
    assert difference([float("inf")], [1.0]) is None


def group(values: list[float]) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(len(values)), np.array(values)


def test_a_zero_can_lead() -> None:
    found = leading({"off": group([0.33] * 6), "on": group([0.0] * 6), "too": group([0.0] * 6)}, "lower")
    assert found is not None and not found.pilot
    assert {found.best, *found.shared} == {"on", "too"}
    assert found.ahead is None  # nothing divides by it


def test_zeros_among_noise_lead_only_where_the_difference_is_clear() -> None:
    rng = np.random.default_rng(2)
    noise = np.maximum(rng.normal(0, 1, 8), 0).tolist()
    found = leading({"a": group([0.0] * 8), "b": group(noise)}, "lower")
    assert found is not None and found.shared == ["b"]


def test_a_few_rounds_are_a_pilot_with_zeros_too() -> None:
    found = leading({"a": group([0.0] * 3), "b": group([1.0] * 3)}, "lower")
    assert found is not None and found.pilot and found.rounds == 3
