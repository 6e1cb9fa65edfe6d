"""The tables of the terminal: every row in every phase, headline metric and ratio.

Widths are made here, not by the terminal's library: rows must stay apart, so names are wrapped and never
cut, and as many columns as fit stand side by side, since a table that is split is read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.markup import escape

from fsdyno.report.model import Column, Report, Row
from fsdyno.report.numbers import ARROWS, Scale, scale_for, spread, times
from fsdyno.report.tables import LONG, UNJUDGED, Panel, absent, head, headed, lines, panels

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_HEAD = 11  # characters to which the words over a column are wrapped
_LEAST_NAME = 16
_ALIGNED = "aligned"
_BETTER, _WORSE = "green", "red"


@dataclass(frozen=True)
class _Cell:
    """What stands in one place: a number, and how it compares, under it."""

    value: str = ""
    mark: str = ""
    spread: str = ""
    ratio: str = ""
    ratio_spread: str = ""
    style: str = ""  # of the ratio
    dim: bool = False  # the value


@dataclass(frozen=True)
class _Shown:
    """A column as text: its head, and each row's number and ratio, all of one width."""

    head: list[str]
    places: dict[int, tuple[str, str]]  # markup by row
    width: int
    compared: bool  # whether any row has a ratio


def print_tables(report: Report, console: Console) -> None:
    """Prints the tables, none wider than the console."""
    with_aligned = any(row.aligned is not None for row in report.rows)
    for panel in panels(report):
        shown = _columns(report, panel)
        title = panel.title if panel.titled else ""
        while shown:
            fixed = len(_ALIGNED) + 1 if with_aligned else 0
            room = console.width - fixed
            name, count = _fit(report, shown, room)
            if title:
                console.print(title, style="bold", highlight=False)
            corner = panel.title if panel.columns[0].point and not panel.titled else ""
            _print(report, console, shown[:count], name, corner, with_aligned)
            shown, with_aligned = shown[count:], False  # once is enough
            console.print()


def _fit(report: Report, shown: Sequence[_Shown], room: int) -> tuple[int, int]:
    """The width of names, and the number of columns that fit beside them. Names give way, down to a least
    width, if that saves a table."""
    natural = _name_width(report, any(column.compared for column in shown))
    least = min(natural, _LEAST_NAME)
    count, used = 0, least
    for column in shown:
        if count and used + 1 + column.width > room:
            break
        count, used = count + 1, used + 1 + column.width
    return max(least, min(natural, room - (used - least))), count


def _name_width(report: Report, two_lines: bool) -> int:
    """The width of the longest name or remark, or of what both are on one line, as far as there is room."""
    short = headed(report)
    rows = [row for row in report.rows if not row.excluded]
    names = [len(_name(row, short)) + 2 * bool(row.suspects) for row in rows]
    remarks = [len(row.remark) for row in rows]
    if not two_lines:
        remarks = [a + b + 3 if b else a for a, b in zip(names, remarks, strict=True)]
    return min(LONG, max(names + remarks, default=0))


def _name(row: Row, short: bool) -> str:
    return row.short if short else row.name


def _columns(report: Report, panel: Panel) -> list[_Shown]:
    """The columns of a table as text."""
    found = []
    for column in panel.columns:
        together = panel.columns if column.point else [column]  # points of a sweep are compared
        scale = scale_for([entry.median for c in together for _, entry in report.of(c)], column.unit)
        cells = {row.index: _cell(report, column, scale, row) for _, rows in lines(report) for row in rows}
        title = [*wrap(head(column), _HEAD), f"{scale.unit} {ARROWS[column.direction]}".strip()]
        found.append(_shown(title, cells))
    return found


def _cell(report: Report, column: Column, scale: Scale, row: Row) -> _Cell:
    entry = report.entry(column, row.index)
    if entry is None:
        return _Cell(absent(report.absence(column, row.index)), dim=True)
    width = spread(entry.median, entry.low, entry.high)
    value = scale.text(entry.median)
    if entry.unjudged:
        return _Cell(value, UNJUDGED, width, dim=True)
    ratio = entry.ratio
    if ratio is None:
        return _Cell(value, "", width, "1" if row.reference else "")
    return _Cell(
        *(value, "", width, times(ratio), spread(ratio.value, ratio.low, ratio.high)),
        style=_style(column, ratio.value, ratio.clear),
    )


def _shown(title: list[str], cells: dict[int, _Cell]) -> _Shown:
    """Lays out a column: numbers end at one place, marks and spreads follow."""
    numbers = max([len(cell.value) for cell in cells.values()] + [len(c.ratio) for c in cells.values()])
    marks = max(len(cell.mark) for cell in cells.values())
    spreads = max(max(len(c.spread), len(c.ratio_spread)) for c in cells.values())
    width = max(numbers + marks + (spreads + 1 if spreads else 0), *(len(line) for line in title))
    places = {}
    for index, cell in cells.items():
        tail = f"{cell.mark:<{marks}}{f' {cell.spread:<{spreads}}' if spreads else ''}"
        value = f"[dim]{escape(cell.value)}{tail}[/dim]" if cell.dim else f"{cell.value}[dim]{tail}[/dim]"
        under = f"{'':<{marks}}{f' {cell.ratio_spread:<{spreads}}' if spreads else ''}"
        style = cell.style or ("dim" if cell.ratio == "1" else "")
        ratio = f"[{style}]{cell.ratio}[/]" if style else cell.ratio
        places[index] = (value, f"{ratio}[dim]{under}[/dim]" if cell.ratio else "")
    return _Shown(title, places, width, any(cell.ratio for cell in cells.values()))


def _print(
    report: Report,
    console: Console,
    shown: Sequence[_Shown],
    name: int,
    corner: str,
    with_aligned: bool,
) -> None:
    """Prints one table, under the headings of its groups if there are any."""
    tall = max(len(column.head) for column in shown)
    compared = any(column.compared for column in shown)
    first = True
    for heading, rows in lines(report):
        if heading and first:
            console.print(_table(shown, name, corner, with_aligned, tall))
        if heading:
            console.print(heading, style="bold", highlight=False, markup=False)
        table = _table(shown, name, corner, with_aligned, 0 if heading else tall)
        for row in rows:
            names = _wrapped(_name(row, bool(heading)), row, name, compared)
            places = [column.places[row.index] for column in shown]
            aligned = [{True: "yes", False: "no", None: "[dim]–[/dim]"}[row.aligned]] if with_aligned else []
            under = ["\n".join((value, ratio)) if ratio else value for value, ratio in places]
            table.add_row("\n".join(names), *aligned, *under)
        console.print(table)
        first = False


def _table(shown: Sequence[_Shown], name: int, corner: str, with_aligned: bool, tall: int) -> Table:
    """An empty table; without a head if it has no height."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_header=bool(tall))

    def over(words: Sequence[str]) -> str:
        return "\n".join([*[""] * (tall - len(words)), *words])

    table.add_column(over([escape(corner), ""]), width=name, no_wrap=True)
    if with_aligned:
        table.add_column(over([_ALIGNED, ""]), width=len(_ALIGNED))
    for column in shown:
        *words, unit = column.head
        table.add_column(
            over([*map(escape, words), f"[dim]{unit}[/dim]"]),
            width=column.width,
            justify="right",
            no_wrap=True,
        )
    return table


def _wrapped(name: str, row: Row, width: int, two_lines: bool) -> list[str]:
    """A name and its remark as lines of markup: the remark under it where ratios stand, else behind it, as
    behind a name of several lines."""
    mark = " !" if row.suspects else ""
    named = _lines(name + mark, width)
    if two_lines and len(named) == 1:
        remark = [f"[dim]{escape(line)}[/dim]" for line in _lines(row.remark, width)]
        return [*map(escape, named), *remark]
    return [escape(line) for line in _lines(f"{name}{mark}{f' ({row.remark})' if row.remark else ''}", width)]


def _lines(text: str, width: int) -> list[str]:
    return wrap(text, width) if text else []


def _style(column: Column, ratio: float, clear: bool) -> str:
    if not clear or column.direction == "neither":
        return ""
    return _BETTER if (ratio > 1) == (column.direction == "higher") else _WORSE


def coloured(text: str, column: Column, ratio: float, clear: bool) -> str:
    """A ratio in the colour of better or worse, where its interval excludes 1."""
    style = _style(column, ratio, clear)
    return f"[{style}]{text}[/]" if style else text
