"""Numbers as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsdyno.report.numbers import ratio_interval, scale_for, spread, three_digits, times, with_unit
from fsdyno.report.plots import Axis
from fsdyno.stats.ratio import Ratio


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0521, "0.0521"),
        (1.305, "1.30"),
        (12.34, "12.3"),
        (9.999, "10.0"),
        (0.0009999, "0.00100"),
        (999.6, "1000"),
        (1234, "1230"),
        (-2.5, "-2.50"),
    ],
)
def test_three_digits_say_enough(value: float, text: str) -> None:
    assert three_digits(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0521, "s", "52.1 ms"),
        (3.9e-6, "s", "3.90 µs"),
        (0.0, "s", "0 s"),
        (90.0, "s", "90.0 s"),
        (4096, "B", "4.00 KiB"),
        (3 * 2**28, "B/s", "768 MiB/s"),
        (12345, "1/s", "12.3 k/s"),
        (950, "1/s", "950 1/s"),
        (7, "1", "7.00"),
    ],
)
def test_units_are_spelled_as_in_the_field(value: float, unit: str, text: str) -> None:
    assert with_unit(value, unit) == text


def test_a_column_has_one_scale() -> None:
    scale = scale_for([0.5, 0.02, 0.03], "s")
    assert [scale.text(v) for v in (0.5, 0.02)] == ["500", "20.0"]


@given(st.floats(1e-9, 1e12))
def test_three_digits_are_within_half_a_digit(value: float) -> None:
    assert float(three_digits(value)) == pytest.approx(value, rel=0.0051)


def test_the_spread_is_the_wider_side() -> None:
    assert spread(100, 95, 120) == "±20%"
    assert spread(100, 99.9, 100.2) == "±0.2%"
    assert spread(100, None, None) == ""
    assert spread(100, 1, 301) == "wide"


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=30))
def test_every_value_has_its_place_on_the_axis(values: list[float]) -> None:
    axis = Axis.over(values)
    places = [axis.at(v) for v in sorted(values)]
    assert all(0 <= place <= 100 for place in places)
    assert places == sorted(places)
    assert len(axis.ticks()) >= 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.309, "1.31×"),
        (0.05, "0.050×"),
        (12.34, "12.3×"),
        (115.2, "115×"),
        (1e9, ">999×"),
        (1e-9, "<0.001×"),
    ],
)
def test_a_ratio_shows_no_digits_that_say_nothing(value: float, text: str) -> None:
    assert times(Ratio(6, value, value, value, None, None, None, 0.95)) == text


def test_an_interval_that_says_nothing_stays_short() -> None:
    assert ratio_interval(Ratio(2, 1.0, 1e-7, 1e7, None, None, None, 0.95)) == "[<0.001, >999]"
    assert ratio_interval(Ratio(1, 1.0, None, None, None, None, None, 0.95)) == "–"
