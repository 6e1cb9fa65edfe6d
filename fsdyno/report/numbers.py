"""Numbers as people read them: three digits, one scale per column, units spelled as in the field."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Any

from fsdyno.stats.ratio import Ratio

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BINARY = ((1024.0**4, "Ti"), (1024.0**3, "Gi"), (1024.0**2, "Mi"), (1024.0, "Ki"), (1.0, ""))
_DECIMAL = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))

_WIDE = 2.0  # an interval's side beyond twice its value says only that nothing is known

ARROWS = {"higher": "↑", "lower": "↓", "neither": ""}


@dataclass(frozen=True)
class Scale:
    """A factor to divide by, and the unit that this leaves."""

    factor: float
    unit: str

    def text(self, value: float) -> str:
        """The number without its unit."""
        return three_digits(value / self.factor)

    def full(self, value: float) -> str:
        """The number with its unit."""
        return f"{self.text(value)} {self.unit}".strip()


def scale_for(values: Iterable[float], unit: str) -> Scale:
    """One scale for all of `values`, so that a column can be compared by eye; the middle one chooses it."""
    sizes = sorted(abs(v) for v in values if isfinite(v))
    middle = sizes[len(sizes) // 2] if sizes else 0.0
    if unit == "s":
        factor, name = next(((f, u) for f, u in _TIMES if middle >= f), _TIMES[-1] if middle else _TIMES[0])
        return Scale(factor, name)
    if unit in ("B", "B/s"):
        factor, prefix = next(((f, p) for f, p in _BINARY if middle >= f), _BINARY[-1])
        return Scale(factor, prefix + unit)
    factor, prefix = next(((f, p) for f, p in _DECIMAL if middle >= f * 10), _DECIMAL[-1])
    if unit == "1/s":
        return Scale(factor, f"{prefix}/s" if prefix else "1/s")
    return Scale(factor, prefix if unit == "1" else f"{prefix}{unit}")


def with_unit(value: float, unit: str) -> str:
    """One number on its own."""
    return scale_for([value], unit).full(value)


def three_digits(value: float) -> str:
    """Three significant digits, no exponent below a million: 0.0521, 1.31, 12.3, 1230."""
    if not isfinite(value):
        return "–"
    if value == 0:
        return "0"
    places = 2 - floor(log10(abs(value)))
    places = 2 - floor(log10(abs(round(value, places))))  # rounding may bring a digit more: 9.999 is 10.0
    return f"{round(value, places):.{max(0, min(places, 12))}f}"


def interval(low: float | None, high: float | None, scale: Scale) -> str:
    """An interval, or a dash where there is none."""
    return "–" if low is None or high is None else f"[{scale.text(low)}, {scale.text(high)}]"


def spread(value: float, low: float | None, high: float | None) -> str:
    """The wider side of an interval as a share of its value: `±4%`, or `wide`. Empty where there is none."""
    if low is None or high is None or value == 0:
        return ""
    share = max(high - value, value - low) / abs(value)
    if share > _WIDE:
        return "wide"
    return f"±{100 * share:.0f}%" if share >= 0.0095 else f"±{100 * share:.1f}%"


def times(ratio: Ratio) -> str:
    """`1.31×`."""
    return f"{_factor(ratio.value)}×"


def ratio_interval(ratio: Ratio) -> str:
    """`[1.22, 1.40]`, or a dash."""
    if ratio.low is None or ratio.high is None:
        return "–"
    return f"[{_factor(ratio.low)}, {_factor(ratio.high)}]"


def _factor(value: float) -> str:
    """A ratio as short as it can be read: two decimals near 1, and no digits that say nothing."""
    if value < 0.001:
        return "<0.001"
    if value >= 999.5:
        return ">999"
    places = 3 if value < 0.0995 else 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{places}f}"


def machine_words(where: dict[str, Any]) -> str:
    """Where a trial ran, from `Trial.where`: `guest: kernel 6.1.0, CPUs emulated (tcg), 2 CPUs, 1.00 GiB`."""
    accelerator = where.get("accelerator")
    words = [f"kernel {where['kernel']}"] if where.get("kernel") else []
    if accelerator:
        words.append(f"CPUs emulated ({accelerator})" if accelerator == "tcg" else f"CPUs by {accelerator}")
    if where.get("cpus"):
        words.append(f"{where['cpus']} CPU{'' if where['cpus'] == 1 else 's'}")
    if where.get("memory"):
        words.append(with_unit(where["memory"], "B"))
    if where.get("qemu"):
        version = str(where["qemu"])
        words.append(version if version.startswith("QEMU") else f"QEMU {version}")
    place = str(where.get("place") or "unknown")
    return f"{place}: {', '.join(words)}" if words else place
