"""Units as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsdyno.units import parse_bytes, parse_seconds, show_bytes, show_seconds

SIZES = {
    "0": 0,
    "512": 512,
    "512B": 512,
    "128K": 128 << 10,
    "128k": 128 << 10,
    "128KiB": 128 << 10,
    "128 kib": 128 << 10,
    "1.5M": 3 << 19,
    ".5G": 1 << 29,
    "2GiB": 2 << 30,
    "38T": 38 << 40,
    "1PiB": 1 << 50,
}
TIMES = {
    "0s": 0.0,
    "30s": 30.0,
    "30 sec": 30.0,
    "2min": 120.0,
    "2m": 120.0,
    "1h": 3600.0,
    "1h30min": 5400.0,
    "1h 30min": 5400.0,
    "7d": 604800.0,
    "500ms": 0.5,
    "20us": 2e-5,
    "20µs": 2e-5,
    "7ns": 7e-9,
}


@pytest.mark.parametrize(("text", "size"), SIZES.items())
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(("text", "seconds"), TIMES.items())
def test_times(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "K", "12X", "1e3", "1,5M", "-1K", "1.0001K", "1 2", "0x10", "1K2", "nan", "∞"]
)
def test_these_are_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|negative|unknown unit|whole number"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "binary", "decimal"),
    [("1GB", "1GiB", "1000000000"), ("64kB", "64KiB", "64000"), ("1.5MB", "1.5MiB", "1500000")],
)
def test_decimal_looking_units_are_refused_with_both_readings(text: str, binary: str, decimal: str) -> None:
    with pytest.raises(ValueError, match=r"ambiguous") as caught:
        parse_bytes(text)
    assert f'"{binary}"' in str(caught.value)
    assert decimal in str(caught.value)


@pytest.mark.parametrize("text", ["", "s", "30", "-1s", "30 sek", "1h30", "1:30", "1e3s"])
def test_these_are_no_times(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|negative|no unit|unknown unit"):
        parse_seconds(text)


@given(st.text(max_size=12))
def test_any_text_is_a_size_or_gets_a_sentence(text: str) -> None:
    for parse in (parse_bytes, parse_seconds):
        try:
            assert parse(text) >= 0
        except ValueError as error:
            assert str(error)


@given(st.integers(1, 1023), st.sampled_from("KMGTP"))
def test_a_whole_multiple_is_shown_so_that_it_reads_back(count: int, unit: str) -> None:
    size = parse_bytes(f"{count}{unit}")
    assert parse_bytes(show_bytes(size)) == size


def test_shown_for_people() -> None:
    assert [show_bytes(n) for n in (0, 512, 131072, 3 << 29)] == ["0 B", "512 B", "128 KiB", "1.5 GiB"]
    assert [show_seconds(s) for s in (0.82, 45, 125, 120, 12000)] == [
        "0.8 s",
        "45 s",
        "2 min 5 s",
        "2 min",
        "3 h 20 min",
    ]
    assert show_seconds(3599.7) == "1 h"
