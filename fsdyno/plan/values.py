"""Values of TOML that no plan means, found before anything is made of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any

from fsdyno.plan.problems import Path, Problem
from fsdyno.units import quote


def strange(value: Any, path: Path = ()) -> Iterator[Problem]:
    """Dates, times, what is no finite number, and whole numbers beyond the 64 bits of TOML."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from strange(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from strange(inner, (*path, index))
    elif isinstance(value, date | datetime | time):
        text = f"{value} is a date or a time of day; put it into quotation marks if it is a name"
        yield Problem(path, "value", text)
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(path, "value", f"{value} is no number that can be used; write a finite one")
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        yield Problem(path, "value", f"{quote(value)} is too large; whole numbers have 64 bits")


def too_deep(text: str) -> Problem:
    """The problem of a text that nests too deeply, at the line that does so most by the look of it."""
    lines = text.split("\n")
    depth = [sum(line.count(character) for character in "[{.") for line in lines]
    number = depth.index(max(depth))
    key = quote(lines[number].split("=")[0].strip())
    return Problem((), "structure", f"{key} is nested too deeply", number + 1, 1)
