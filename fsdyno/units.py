"""Units as people write them, and back: `128K`, `2GiB`, `30s`.

Storage people write sizes in two systems. Here `K`, `M`, `G`, `T`, `P` and `KiB` … `PiB` are powers
of 1024, as in fio, mkfs, mdadm and LVM. `KB`, `MB`, `GB` are refused: drive vendors mean 1000 by
them and many tools 1024, and a size that is 7 % off must not pass unseen.
"""

from __future__ import annotations

import re
from fractions import Fraction

_STEPS = "KMGTP"
_SIZE = re.compile(r"\s*([+-]?)(\d+(?:\.\d+)?|\.\d+)\s*([A-Za-z]*)\s*\Z")
_TIME_PART = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([A-Za-zµ]*)")
_SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "sec": Fraction(1),
    "m": Fraction(60),
    "min": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
SIZE_FORM = 'a size in bytes such as 512, "128K", "1.5MiB" or "2GiB"'
TIME_FORM = 'a time such as 2.5 (seconds), "500ms", "30s", "2min" or "1h30min"'


def parse_bytes(text: str) -> int:
    """Bytes of a size as people write it.

    Raises ValueError with a sentence that says what is wrong and what to write instead.
    """
    found = _SIZE.match(text)
    if found is None:
        raise ValueError(f"{quote(text)} is not {SIZE_FORM}")
    sign, digits, unit = found.groups()
    if sign == "-":
        raise ValueError(f"{quote(text)} is negative; a size is 0 or more")
    value = Fraction(digits) * _bytes_of(unit, digits, text)
    if value.denominator != 1:
        raise ValueError(
            f"{quote(text)} is {float(value):.10g} bytes; write a size that is a whole number of bytes"
        )
    return value.numerator


def _bytes_of(unit: str, digits: str, text: str) -> int:
    if unit in ("", "B"):
        return 1
    step = _STEPS.find(unit[0].upper()) + 1
    rest = unit[1:]
    if step and rest.lower() in ("", "ib"):
        return int(1024**step)
    if step and rest.lower() == "b":
        decimal = Fraction(digits) * 1000**step
        exact = f"{decimal.numerator}" if decimal.denominator == 1 else f"{float(decimal):g}"
        raise ValueError(
            f"{quote(text)} is ambiguous (1000 or 1024?): "
            f'write "{digits}{unit[0].upper()}iB" for powers of 1024, or {exact} for powers of 1000'
        )
    raise ValueError(f"{quote(text)} has an unknown unit {quote(unit)}; expected {SIZE_FORM}")


def parse_seconds(text: str) -> float:
    """Seconds of a time as people write it; parts may be joined: `1h30min`.

    Raises ValueError with a sentence that says what is wrong and what to write instead.
    """
    if text.strip().startswith("-"):
        raise ValueError(f"{quote(text)} is negative; a time is 0 or more")
    total, end, parts = Fraction(0), 0, 0
    stripped = text.strip()
    while end < len(stripped):
        found = _TIME_PART.match(stripped, end)
        if found is None:
            raise ValueError(f"{quote(text)} is not {TIME_FORM}")
        digits, unit = found.groups()
        parts, end = parts + 1, found.end()
        if not unit:
            raise ValueError(f"{quote(text)} has no unit; expected {TIME_FORM}")
        if unit not in _SECONDS:
            raise ValueError(f"{quote(text)} has an unknown unit {quote(unit)}; expected {TIME_FORM}")
        total += Fraction(digits) * _SECONDS[unit]
    if parts == 0:
        raise ValueError(f"{quote(text)} is not {TIME_FORM}")
    return float(total)


def show_bytes(size: float) -> str:
    """A size as mkfs tools print it: `128 KiB`, `1.5 GiB`."""
    names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    value, step = float(size), 0
    while abs(value) >= 1024 and step < len(names) - 1:
        value, step = value / 1024, step + 1
    return f"{value:.0f} {names[step]}" if value == int(value) else f"{value:.1f} {names[step]}"


def show_seconds(seconds: float) -> str:
    """A time for people: `0.8 s`, `45 s`, `2 min 5 s`, `3 h 20 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _pair(whole // 60, "min", whole % 60, "s")
    minutes = round(seconds / 60)
    return _pair(minutes // 60, "h", minutes % 60, "min")


def _pair(high: int, high_name: str, low: int, low_name: str) -> str:
    return f"{high} {high_name} {low} {low_name}" if low else f"{high} {high_name}"


def quote(value: object) -> str:
    """A value as a TOML file would hold it, shortened."""
    import json

    if isinstance(value, bool | int | float | str | list | dict) or value is None:
        text = json.dumps(value, ensure_ascii=False, default=str)
    else:
        text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"
