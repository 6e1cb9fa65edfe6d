"""Plots as inline SVG: every point visible, readable at phone width, no library and no network.

Positions are percentages, so that a plot stretches to its column while text and dots keep their size.
Colours and sizes are in report.css; a dot's `data-t` is what it says under the pointer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10

from fsdyno.report.model import Column, Entry, Latency, Report, Row, Trace
from fsdyno.report.numbers import Scale, interval, scale_for, with_unit

_LOG_FROM = 6.0  # largest over smallest value from which on an axis is logarithmic
_COLOURS = 10
_MOST_STEPS = 240  # of a trace: more than a plot has pixels to tell apart


@dataclass(frozen=True)
class Axis:
    """A value axis: where a value stands, in percent, and where the ticks are."""

    low: float
    high: float
    log: bool

    @staticmethod
    def over(values: Iterable[float]) -> Axis:
        """Linear from 0, or logarithmic where the values span more than a factor of 6."""
        found = [v for v in values if v > 0]
        if not found:
            return Axis(0.0, 1.0, False)
        low, high = min(found), max(found)
        if high / low <= _LOG_FROM:
            return Axis(0.0, high * 1.04, False)
        return Axis(low / 1.25, high * 1.25, True)

    def at(self, value: float) -> float:
        """Percent of the way from low to high."""
        if self.log:
            return (
                100 * (log10(max(value, self.low)) - log10(self.low)) / (log10(self.high) - log10(self.low))
            )
        return 100 * (value - self.low) / (self.high - self.low)

    def ticks(self, wanted: int = 5) -> list[float]:
        """Round values within the axis."""
        if self.log:
            decades = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            for steps in ((1, 2, 5), (1, 3), (1,)):
                found = [s * 10.0**d for d in decades for s in steps if self.low <= s * 10.0**d <= self.high]
                if len(found) <= wanted + 2:
                    break
            return found
        rough = (self.high - self.low) / wanted
        size = 10.0 ** floor(log10(rough))
        step = next(s * size for s in (1, 2, 5, 10) if s * size >= rough)
        return [i * step for i in range(ceil(self.low / step), floor(self.high / step) + 1)]


def colour(index: int) -> str:
    """The class that gives a cell its colour, the same in every plot."""
    return f"c{index % _COLOURS}"


def _tick(value: float, scale: Scale) -> str:
    return f"{value / scale.factor:.10g}"


def _svg(kind: str, label: str, parts: Iterable[str]) -> str:
    return f'<svg class="{kind}" role="img" aria-label="{escape(label, quote=True)}">{"".join(parts)}</svg>'


def _dot(x: float, y: str, text: str, css: str, r: float = 4) -> str:
    return f'<circle class="{css}" cx="{x:.2f}%" cy="{y}" r="{r}" data-t="{escape(text, quote=True)}"/>'


def _ground(axis: Axis, scale: Scale) -> str:
    """The axis under a stack of rows."""
    ticks = axis.ticks()
    parts = []
    for value in ticks:
        x = axis.at(value)
        anchor = "start" if x < 4 else "end" if x > 96 else "middle"
        parts.append(f'<text x="{x:.2f}%" y="12" text-anchor="{anchor}">{_tick(value, scale)}</text>')
    ruler = f'<svg class="x" aria-hidden="true">{"".join(parts)}</svg>'
    return f'<div class="r axis"><span></span>{ruler}<span>{escape(scale.unit)}</span></div>'


def _grid(axis: Axis) -> str:
    lines = (
        f'<line class="g" x1="{axis.at(v):.2f}%" x2="{axis.at(v):.2f}%" y1="0" y2="100%"/>'
        for v in axis.ticks()
    )
    return "".join(lines)


def strip(report: Report, column: Column) -> str:
    """One row per cell: every trial as a dot, the median as a bar, its interval as a band."""
    found = report.of(column)
    axis = Axis.over(v for _, entry in found for v in entry.values)
    scale = scale_for([v for _, entry in found for v in entry.values], column.unit)
    rows = [_strip_row(row, entry, axis, scale) for row, entry in found]
    return f'<div class="plot">{"".join(rows)}{_ground(axis, scale)}</div>'


def _strip_row(row: Row, entry: Entry, axis: Axis, scale: Scale) -> str:
    css = colour(row.index)
    parts = [_grid(axis)]
    if entry.low is not None and entry.high is not None:
        x, width = axis.at(entry.low), axis.at(entry.high) - axis.at(entry.low)
        parts.append(
            f'<rect class="band {css}" x="{x:.2f}%" width="{max(width, 0.2):.2f}%" y="6" height="20" rx="3"/>'
        )
    middle = axis.at(entry.median)
    parts.append(f'<line class="median {css}" x1="{middle:.2f}%" x2="{middle:.2f}%" y1="3" y2="29"/>')
    for i, value in enumerate(entry.values):
        height = 16 + ((i * 5) % 13 - 6)  # spread so that equal values do not hide one another
        doubt = ", suspect" if entry.suspect[i] else ""
        which = f"round {entry.rounds[i]}, trial {entry.trials[i][:8]}"
        text = f"{row.name}: {scale.full(value)}, {which}{doubt}"
        parts.append(_dot(axis.at(value), str(height), text, f"dot {css}{' doubt' if doubt else ''}"))
    says = f"{row.title}: median {scale.full(entry.median)} of {entry.n} trials"
    number = f"<b>{scale.text(entry.median)}</b> <small>{interval(entry.low, entry.high, scale)}</small>"
    return (
        f'<div class="r"><span class="n">{_name(row)}</span>{_svg("s", says, parts)}'
        f'<span class="v">{number}</span></div>'
    )


def _name(row: Row) -> str:
    remark = f" <small>{escape(row.remark)}</small>" if row.remark else ""
    return f"{escape(row.name)}{remark}"


def lines(report: Report, columns: Sequence[Column]) -> str:
    """A swept phase: value over points, one line per cell through its medians, every trial as a dot."""
    entries = [(row, entry) for column in columns for row, entry in report.of(column)]
    values = [v for _, entry in entries for v in entry.values]
    axis, scale = Axis.over(values), scale_for(values, columns[0].unit)
    places = {id(column): 4 + 92 * (i + 0.5) / len(columns) for i, column in enumerate(columns)}
    parts = []
    for value in axis.ticks():
        y = 100 - axis.at(value)
        parts.append(f'<line class="g" x1="0" x2="100%" y1="{y:.2f}%" y2="{y:.2f}%"/>')
        parts.append(
            f'<text class="t" x="2" y="{y:.2f}%" dy="-3">{_tick(value, scale)} {escape(scale.unit)}</text>'
        )
    for row in report.rows:
        mine = [(column, report.entry(column, row.index)) for column in columns]
        known = [(places[id(c)], e) for c, e in mine if e is not None]
        css = colour(row.index)
        for (x1, a), (x2, b) in pairwise(known):
            y1, y2 = 100 - axis.at(a.median), 100 - axis.at(b.median)
            ends = f'x1="{x1:.2f}%" x2="{x2:.2f}%" y1="{y1:.2f}%" y2="{y2:.2f}%"'
            parts.append(f'<line class="link {css}" {ends}/>')
        for x, entry in known:
            parts += _line_dots(row, entry, x, axis, scale)
    names = "".join(f"<span>{escape(column.point_name)}</span>" for column in columns)
    present = {row.index for row, _ in entries}
    legend = "".join(
        f'<span><i class="{colour(row.index)}"></i>{_name(row)}</span>'
        for row in report.rows
        if row.index in present
    )
    says = f"{columns[0].phase}: {columns[0].metric} over {len(columns)} points"
    return (
        f'<div class="plot"><div class="legend">{legend}</div>{_svg("lines", says, parts)}'
        f'<div class="points">{names}</div></div>'
    )


def _line_dots(row: Row, entry: Entry, x: float, axis: Axis, scale: Scale) -> list[str]:
    dots = []
    for i, value in enumerate(entry.values):
        doubt = ", suspect" if entry.suspect[i] else ""
        text = (
            f"{row.name}, {entry.column.point_name}: {scale.full(value)}, round {entry.rounds[i]}, "
            f"trial {entry.trials[i][:8]}{doubt}"
        )
        beside = x + ((i * 5) % 11 - 5) * 0.12
        css = f"dot {colour(row.index)}{' doubt' if doubt else ''}"
        dots.append(_dot(beside, f"{100 - axis.at(value):.2f}%", text, css, 3))
    return dots


def latency(rows: dict[int, Row], found: Sequence[Latency]) -> str:
    """One row per cell: percentiles of the merged latencies on a logarithmic axis, the longest last."""
    values = [v for one in found for v in (*one.percentiles.values(), one.longest) if v > 0]
    axis, scale = Axis.over(values), scale_for(values, "s")
    html = []
    for one in found:
        row, css = rows[one.cell], colour(one.cell)
        marks = [*one.percentiles.items(), ("longest", one.longest)]
        first, last = axis.at(marks[0][1]), axis.at(one.longest)
        parts = [
            _grid(axis),
            f'<line class="span {css}" x1="{first:.2f}%" x2="{last:.2f}%" y1="16" y2="16"/>',
        ]
        for name, value in marks:
            text = f"{row.name} {one.op} {name}: {with_unit(value, 's')}"
            css_dot = f"{'end' if name == 'longest' else 'dot'} {css}"
            parts.append(_dot(axis.at(value), "16", text, css_dot, 3 if name == "longest" else 4.5))
        says = f"{row.title}: " + ", ".join(f"{name} {with_unit(value, 's')}" for name, value in marks)
        p50 = with_unit(marks[0][1], "s")
        html.append(
            f'<div class="r"><span class="n">{_name(row)}</span>{_svg("s", says, parts)}'
            f'<span class="v"><b>{p50}</b> <small>{escape(marks[0][0])}</small></span></div>'
        )
    return f'<div class="plot">{"".join(html)}{_ground(axis, scale)}</div>'


def traces(rows: dict[int, Row], found: Sequence[Trace], unit: str) -> str:
    """Small multiples: work per interval over time, all on one scale from 0."""
    series = [(one, rates) for one in found if (rates := _rates(one, unit))]
    top = max((max(rates) for _, rates in series), default=0.0)
    if top <= 0:
        return ""
    scale = scale_for([top], unit)
    html = []
    for one, rates in series:
        row = rows[one.cell]
        seconds = one.interval * len(one.operations)
        path = " ".join(
            f"{100 * (i + 0.5) / len(rates):.2f},{60 - 58 * r / top:.2f}" for i, r in enumerate(rates)
        )
        says = f"{row.title}: {with_unit(seconds, 's')}, mean {with_unit(sum(rates) / len(rates), unit)}"
        html.append(
            f'<figure><svg class="trace" viewBox="0 0 100 60" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(says, quote=True)}">'
            f'<polyline class="{colour(one.cell)}" points="{path}"/></svg>'
            f"<figcaption>{escape(row.name)} <small>{escape(one.point_name)} {with_unit(seconds, 's')}, "
            f"trial {one.trial[:8]}</small></figcaption></figure>"
        )
    return (
        f'<p class="hint">Top of each frame: {scale.full(top)}.</p><div class="traces">{"".join(html)}</div>'
    )


def _rates(trace: Trace, unit: str) -> list[float]:
    """Work per second in each interval; long traces by means of equal stretches."""
    counts = trace.bytes if unit == "B/s" else trace.operations
    if trace.interval <= 0 or len(counts) < 2:
        return []
    size = ceil(len(counts) / _MOST_STEPS)
    chunks = [counts[i : i + size] for i in range(0, len(counts), size)]
    return [sum(chunk) / len(chunk) / trace.interval for chunk in chunks]
