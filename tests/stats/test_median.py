"""The median's interval: tabled ranks, true coverage, no assumption about the distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import quantile_test

from fsdyno.stats.median import median, order_statistics


@pytest.mark.parametrize(
    ("n", "ranks", "coverage"),
    [
        (6, (1, 6), 96.9),
        (8, (1, 8), 99.2),
        (10, (2, 9), 97.9),
        (12, (3, 10), 96.1),
        (15, (4, 12), 96.5),
        (20, (6, 15), 95.9),
    ],
)
def test_ranks_and_coverage_are_those_of_the_table(n: int, ranks: tuple[int, int], coverage: float) -> None:
    found = order_statistics(n)
    assert found is not None
    assert found[:2] == ranks
    assert round(100 * found[2], 1) == coverage


@pytest.mark.parametrize("n", range(6))
def test_fewer_than_six_trials_have_no_interval(n: int) -> None:
    assert order_statistics(n) is None
    if n:
        assert median(range(n)).low is None


@pytest.mark.parametrize("n", [6, 7, 12, 33, 200])
def test_agrees_with_scipy(n: int) -> None:
    values = np.random.default_rng(n).lognormal(size=n)
    theirs = quantile_test(values, p=0.5).confidence_interval(0.95)
    ours = median(values)
    assert (ours.low, ours.high) == (theirs.low, theirs.high)


def test_covers_a_skewed_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(20)
    runs, n = 4000, 10
    inside = 0
    for sample in rng.exponential(size=(runs, n)):
        found = median(sample)
        assert found.low is not None and found.high is not None
        inside += found.low <= np.log(2) <= found.high
    # 97.9 % exactly; four standard errors of a simulation with 4000 runs are 0.9 %
    assert abs(inside / runs - 0.979) < 0.009


def test_nothing_has_no_median() -> None:
    with pytest.raises(ValueError, match="nothing"):
        median([])


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=60))
def test_lies_within_its_interval_and_the_interval_within_the_data(values: list[float]) -> None:
    found = median(values)
    assert found.value == pytest.approx(float(np.median(values)), rel=1e-12, abs=1e-6)
    if found.low is not None and found.high is not None and found.coverage is not None:
        assert min(values) <= found.low <= found.value <= found.high <= max(values)
        assert found.coverage >= 0.95


@given(st.integers(6, 300), st.sampled_from([0.9, 0.95, 0.99]))
def test_the_ranks_are_the_narrowest_symmetric_ones(n: int, confidence: float) -> None:
    from scipy.stats import binom

    found = order_statistics(n, confidence)
    alpha = (1 - confidence) / 2
    if found is None:
        assert binom.cdf(0, n, 0.5) > alpha
        return
    low, high, coverage = found
    assert low + high == n + 1
    assert binom.cdf(low - 1, n, 0.5) <= alpha * (1 + 1e-9)
    assert low == n // 2 or binom.cdf(low, n, 0.5) > alpha
    assert coverage == pytest.approx(1 - 2 * binom.cdf(low - 1, n, 0.5))
