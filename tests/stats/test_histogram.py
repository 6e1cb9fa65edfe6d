"""Histograms: fio's bins, exact merging, quantiles within their stated error."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsdyno.stats.histogram import Histogram, lower_edge, midpoint
from tests.store.fixtures import bin_of, histogram

latencies = st.lists(st.integers(0, 17_000_000_000), min_size=1, max_size=200)


def made(values: list[int]) -> Histogram:
    return Histogram.from_wire(histogram(values))


def test_bins_are_fios() -> None:
    # fio: group 2 has base 1 << 7 and step 2, group 3 base 1 << 8 and step 4; keys are middles
    assert [midpoint(i) for i in (0, 5, 127, 128, 129, 191, 192)] == [0, 5, 127, 129, 131, 255, 258]


def test_every_bin_begins_where_the_last_one_ended() -> None:
    for index in range(1, 29 * 64):
        assert bin_of(lower_edge(index)) == index
        assert bin_of(lower_edge(index) - 1) == index - 1


@given(latencies, st.floats(0, 1))
def test_a_quantile_is_within_one_part_in_128_of_the_true_one(values: list[int], q: float) -> None:
    true = sorted(values)[max(1, math.ceil(q * len(values) - 1e-9)) - 1]
    assert abs(made(values).quantile(q) - true) <= true / 128 + 0.5


@given(latencies, latencies)
def test_merging_is_the_same_as_measuring_together(a: list[int], b: list[int]) -> None:
    assert Histogram.merged([made(a), made(b)]) == made(a + b)


@given(latencies)
def test_nothing_merged_in_changes_nothing(values: list[int]) -> None:
    assert Histogram.merged([Histogram(), made(values), Histogram()]) == made(values)


def test_percentiles_of_a_merge_are_not_the_mean_of_percentiles() -> None:
    fast, slow = made([100] * 99 + [101]), made([1000] * 50)
    both = Histogram.merged([fast, slow])
    assert both.quantile(0.5) == 100
    assert both.quantile(0.99) == pytest.approx(1000, rel=1 / 128)


def test_an_empty_one_has_no_quantile() -> None:
    assert math.isnan(Histogram().quantile(0.5))
    assert math.isnan(Histogram().mean)
    with pytest.raises(ValueError, match="between 0 and 1"):
        Histogram().quantile(1.5)
