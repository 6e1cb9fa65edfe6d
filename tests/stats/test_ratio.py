"""The effect: paired by round, on the log scale, with a robust twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fsdyno.stats.leading import leading
from fsdyno.stats.ratio import paired, ratio, signed_rank, walsh_averages

positive = st.floats(1e-6, 1e6)
pairs = st.lists(st.tuples(positive, positive), min_size=1, max_size=30)


def test_agrees_with_scipys_paired_t() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.lognormal(0.2, 0.1, 12), rng.lognormal(0, 0.1, 12)
    found = ratio(a, b)
    theirs = stats.ttest_rel(np.log(a), np.log(b))
    interval = theirs.confidence_interval(0.95)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((np.exp(interval.low), np.exp(interval.high)))
    assert found.apart == (theirs.pvalue < 0.05)


@pytest.mark.parametrize("n", [6, 7, 10, 15, 25, 50])
def test_the_robust_interval_is_wilcoxons_test_turned_around(n: int) -> None:
    """Shifting by a bound's outer neighbour is rejected at 5 %, by its inner neighbour is not."""
    d = np.random.default_rng(n).normal(0.1, 1, n)
    walsh, rank = np.sort(walsh_averages(d)), signed_rank(n)
    assert rank is not None
    inside = (walsh[rank - 1] + walsh[rank]) / 2
    outside = walsh[rank - 1] - 1e-9
    assert stats.wilcoxon(d - inside, method="exact").pvalue > 0.05
    assert stats.wilcoxon(d - outside, method="exact").pvalue <= 0.05


def test_the_normal_approximation_takes_over_smoothly() -> None:
    ranks = [signed_rank(n) or 0 for n in (49, 50, 51, 52)]
    steps = np.diff(ranks)
    assert all(10 < step < 22 for step in steps)


@pytest.mark.parametrize(("n", "rank"), [(5, None), (6, 1), (7, 3), (8, 4), (10, 9), (20, 53)])
def test_signed_ranks_are_those_of_the_tables(n: int, rank: int | None) -> None:
    assert signed_rank(n) == rank


def test_covers_the_true_effect_as_often_as_it_says() -> None:
    rng = np.random.default_rng(6)
    runs, rounds, effect = 4000, 6, 1.31
    t_inside = robust_inside = 0
    for _ in range(runs):
        mood = rng.normal(0, 0.3, rounds)  # common to a round; must cancel
        a = effect * np.exp(mood + rng.normal(0, 0.05, rounds))
        b = np.exp(mood + rng.normal(0, 0.05, rounds))
        found = ratio(a, b)
        assert found is not None and found.low is not None and found.high is not None
        assert found.robust_low is not None and found.robust_high is not None
        t_inside += found.low <= effect <= found.high
        robust_inside += found.robust_low <= effect <= found.robust_high
    assert abs(t_inside / runs - 0.95) < 0.014  # four standard errors
    assert abs(robust_inside / runs - 0.96875) < 0.011


def test_one_wild_round_makes_the_two_disagree() -> None:
    b = np.ones(8)
    a = np.array([1.10, 1.11, 1.12, 1.10, 1.09, 1.11, 1.12, 40.0])
    found = ratio(a, b)
    assert found is not None
    assert found.disputed
    assert found.robust == pytest.approx(1.11, abs=0.02)


def test_only_rounds_that_have_both_are_paired() -> None:
    a, b = paired([3, 1, 2], [30.0, 10.0, 20.0], [2, 3, 5], [2.0, 3.0, 5.0])
    assert (a.tolist(), b.tolist()) == ([20.0, 30.0], [2.0, 3.0])


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_there_is_no_ratio_of_what_has_no_logarithm(bad: float) -> None:
    assert ratio([1.0, bad], [1.0, 1.0]) is None
    assert ratio([], []) is None


@given(pairs)
def test_turning_the_pair_around_turns_the_ratio_around(values: list[tuple[float, float]]) -> None:
    a, b = np.array(values).T
    one, other = ratio(a, b), ratio(b, a)
    assert one is not None and other is not None
    assert one.value == pytest.approx(1 / other.value, rel=1e-6)
    assert one.robust is not None and other.robust is not None
    assert one.robust == pytest.approx(1 / other.robust, rel=1e-6)


@given(pairs, positive)
def test_the_unit_does_not_matter(values: list[tuple[float, float]], unit: float) -> None:
    a, b = np.array(values).T
    one, other = ratio(a, b), ratio(a * unit, b * unit)
    assert one is not None and other is not None
    assert one.value == pytest.approx(other.value, rel=1e-6)


def groups(
    effects: dict[str, float], rounds: int, noise: float, seed: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return {k: (np.arange(rounds), e * np.exp(rng.normal(0, noise, rounds))) for k, e in effects.items()}


def test_a_clear_leader_leads_alone() -> None:
    found = leading(groups({"a": 1.0, "b": 1.3, "c": 0.9}, 6, 0.02, 1), "higher")
    assert found is not None
    assert (found.best, found.runner_up, found.shared, found.pilot) == ("b", "a", [], False)
    fastest = leading(groups({"a": 1.0, "b": 1.3, "c": 0.9}, 6, 0.02, 1), "lower")
    assert fastest is not None
    assert (fastest.best, fastest.shared) == ("c", [])


def test_fewer_than_six_rounds_claim_nothing() -> None:
    found = leading(groups({"a": 1.0, "b": 5.0}, 5, 0.01, 1), "higher")
    assert found is not None
    assert found.pilot
    assert found.shared == ["a"]


def test_equals_seldom_have_a_sole_leader() -> None:
    alone = 0
    for seed in range(400):
        found = leading(groups(dict.fromkeys("abcde", 1.0), 8, 0.05, seed), "higher")
        assert found is not None
        alone += not found.shared
    assert alone / 400 <= 0.05


def test_what_is_neither_better_high_nor_low_has_no_leader() -> None:
    assert leading(groups({"a": 1.0, "b": 2.0}, 6, 0.1, 1), "neither") is None


def test_beyond_many_rounds_there_is_no_robust_twin() -> None:
    found = ratio(np.full(101, 2.0), np.ones(101))
    assert found is not None
    assert (found.robust, found.disputed) == (None, False)


def test_the_more_there_are_to_beat_the_more_a_leader_must_show() -> None:
    """A lead that the 95 % interval just confirms is enough against one, not against two."""
    rounds = np.arange(6)
    a = np.ones(6)
    b = np.exp(0.0128 + 0.01 * np.array([-1, 1, -1, 1, -1, 1]))  # t interval: 0.0128 ± 0.0115
    two = {"a": (rounds, a), "b": (rounds, b)}
    three = {**two, "slow": (rounds, np.full(6, 0.5))}
    alone, shared = leading(two, "higher"), leading(three, "higher")
    assert alone is not None and shared is not None
    assert (alone.best, alone.shared) == ("b", [])
    assert (shared.best, shared.shared) == ("b", ["a"])
