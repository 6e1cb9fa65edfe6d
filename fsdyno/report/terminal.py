"""The report on a terminal: the answer in sentences, then a table that fits the screen.

One matrix shows every file system in every phase, headline metric and ratio; `--phase` or `--metric`
show one at a time with intervals. Nothing is wider than the terminal.
"""

from __future__ import annotations

import io
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING

from fsdyno.report.answer import summary
from fsdyno.report.model import Column, Entry, Report, Row
from fsdyno.report.numbers import (
    ARROWS,
    interval,
    ratio_interval,
    scale_for,
    spread,
    three_digits,
    times,
)
from fsdyno.report.tables import absences, absent, groups, head

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_COLUMN = 10  # characters that `12.3 ±4%` needs, with the space between columns
_ALIGNED = 8  # of the column that says whether a stack is aligned
_WIDEST_NAME = 28
_ANSWERED = ("workload", "mkfs", "check")  # kinds of phases that a sentence is worth; the table has all
_BETTER, _WORSE = "green", "red"


def render(report: Report, console: Console, *, detail: bool = False) -> None:
    """Prints the report; `detail` prints a table per column with intervals instead of the matrix."""
    _head(report, console)
    shown = [a for a in report.answers if detail or a.column.kind in _ANSWERED]
    shown = [a for a in shown if detail or a.column.headline or a.column.counted]
    for sentence, claimed in summary(shown):
        console.print(sentence, style="bold" if claimed else None, highlight=False)
    console.print()
    if detail:
        for column in report.columns:
            console.print(_detail(report, column))
    else:
        with_aligned = any(row.aligned is not None for row in report.rows)
        for title, columns in _panels(report, console.width, with_aligned):
            if columns[0].counted:
                console.print(title, style="bold", highlight=False)
            console.print(_matrix(report, columns, with_aligned))
            console.print()
            with_aligned = False  # once is enough
    _foot(report, console, detail)


def text(report: Report, width: int = 80) -> str:
    """The report as plain text."""
    from rich.console import Console

    out = io.StringIO()
    render(report, Console(file=out, width=width, color_system=None, force_terminal=False))
    return out.getvalue()


def _head(report: Report, console: Console) -> None:
    console.print(report.question, style="bold", highlight=False)
    rounds = f"{report.complete_rounds} of {report.rounds} rounds"
    state = "" if report.status == "complete" else f", {report.status}"
    console.print(
        f"campaign {report.id[:8]}, {rounds}{state}, seed {report.seed}", style="dim", highlight=False
    )
    console.print()


def _panels(report: Report, width: int, with_aligned: bool) -> list[tuple[str, list[Column]]]:
    """The tables, cut to what fits side by side."""
    each = max(1, (width - _name_width(report) - (_ALIGNED if with_aligned else 0)) // _COLUMN)
    return [
        (title, columns[i : i + each])
        for title, columns in groups(report)
        for i in range(0, len(columns), each)
    ]


def _name_width(report: Report) -> int:
    names = [len(row.name) + 2 * bool(row.suspects) for row in report.rows if not row.excluded]
    remarks = [len(row.remark) for row in report.rows if not row.excluded]
    return min(_WIDEST_NAME, max(names + remarks, default=0)) + 1


def _table() -> Table:
    from rich.table import Table

    return Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_edge=False)


def _matrix(report: Report, columns: list[Column], with_aligned: bool) -> Table:
    table = _table()
    swept = bool(columns[0].point)
    table.add_column(
        f"{columns[0].phase}\n" if swept and not columns[0].counted else "\n",
        no_wrap=True,
        max_width=_name_width(report) - 1,
    )
    if with_aligned:
        table.add_column("aligned\n", min_width=_ALIGNED - 1)
    scales = []
    for column in columns:
        together = columns if swept else [column]  # points of a sweep are compared with one another
        scale = scale_for([entry.median for c in together for _, entry in report.of(c)], column.unit)
        scales.append(scale)
        title = "\n".join(wrap(head(column), _COLUMN - 1)) if column.counted else head(column)
        table.add_column(
            f"{title}\n[dim]{scale.unit} {ARROWS[column.direction]}[/dim]",
            justify="right",
            min_width=_COLUMN - 1,
        )
    for row in sorted((row for row in report.rows if not row.excluded), key=lambda row: row.limit):
        first, second = [_name(row)], [f"[dim]{row.remark}[/dim]" if row.remark else ""]
        if with_aligned:
            first.append({True: "yes", False: "no", None: "[dim]–[/dim]"}[row.aligned])
            second.append("")
        for column, scale in zip(columns, scales, strict=True):
            entry = report.entry(column, row.index)
            if entry is None:
                first.append(f"[dim]{absent(report.absence(column, row.index))}[/dim]")
                second.append("")
                continue
            first.append(
                f"{scale.text(entry.median)}[dim]{_padded(spread(entry.median, entry.low, entry.high))}[/dim]"
            )
            second.append(_compared(column, row, entry))
        table.add_row(*first)
        if any(second):
            table.add_row(*second)
    return table


def _compared(column: Column, row: Row, entry: Entry) -> str:
    """How an entry compares with its reference, under it in the table."""
    if entry.unjudged:
        return "[dim]unjudged[/dim]"
    ratio = entry.ratio
    if ratio is None:
        return "[dim]1[/dim]" + " " * 5 if row.reference else ""
    return (
        f"{_coloured(times(ratio), column, ratio.value, ratio.clear)}"
        f"[dim]{_padded(spread(ratio.value, ratio.low, ratio.high))}[/dim]"
    )


def _padded(text: str) -> str:
    return f" {text:<4}" if text else ""


def _name(row: Row) -> str:
    return f"{row.name} [yellow]![/yellow]" if row.suspects else row.name


def _title(row: Row) -> str:
    return f"{row.title} [yellow]![/yellow]" if row.suspects else row.title


def _coloured(text: str, column: Column, ratio: float, clear: bool) -> str:
    if not clear or column.direction == "neither":
        return text
    better = (ratio > 1) == (column.direction == "higher")
    return f"[{_BETTER if better else _WORSE}]{text}[/]"


def _detail(report: Report, column: Column) -> Table:
    found = report.of(column)
    scale = scale_for([value for _, entry in found for value in entry.values], column.unit)
    table = _table()
    arrow = {"higher": ", more is better", "lower": ", less is better", "neither": ""}[column.direction]
    table.title = f"{column.title}: {column.metric} in {scale.unit or '1'}{arrow}"
    table.title_justify = "left"
    table.add_column("")
    for name in ("n", "median", "95 % interval", "ratio", "95 % interval", "robust"):
        table.add_column(name, justify="right")
    for row, entry in found:
        cells = [_title(row), str(entry.n), scale.text(entry.median), interval(entry.low, entry.high, scale)]
        ratio = entry.ratio
        if ratio is None:
            alone = "unjudged" if entry.unjudged else "1" if row.reference else "–"
            cells += [alone, "", ""]
        else:
            mark = " ?" if ratio.disputed else ""
            robust = "–" if ratio.robust is None else f"{three_digits(ratio.robust)}{mark}"
            cells += [
                _coloured(times(ratio), column, ratio.value, ratio.clear),
                ratio_interval(ratio),
                robust,
            ]
        table.add_row(*cells)
    table.caption = " "
    return table


def _foot(report: Report, console: Console, detail: bool) -> None:
    say = partial(console.print, markup=False)  # brackets in a reason are text
    for row in report.rows:
        if row.excluded:
            say(
                f"{row.name}: not measured, {row.excluded.replace('_', ' ')}: {'; '.join(row.reasons)}",
                highlight=False,
            )
        bad = {k: v for k, v in row.outcomes.items() if k != "ok"}
        if bad:
            what = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in bad.items())
            why = f": {'; '.join(row.reasons)}" if row.reasons else ""
            say(f"{row.name}: {what} of {row.trials} trials{why}", style="red", highlight=False)
    for problem in report.problems:
        say(f"! {problem}", style="yellow", highlight=False)
    total = sum(row.trials for row in report.rows)
    for doubt in report.doubts:
        where = f" in {', '.join(doubt.phases)}" if doubt.phases else ""
        kind = doubt.doubt.replace("_", " ")
        say(
            f"! {kind}: {doubt.trials} of {total} trials{where}; e.g. {doubt.example}",
            style="yellow",
            highlight=False,
        )
    for text in absences(report):
        say(text, style="dim", highlight=False)
    for row in report.rows:
        if row.alignment:
            say(f"{row.name}: {'; '.join(row.alignment)}", style="dim", highlight=False)
    reference = ", ".join(str(v) for v in report.reference.values())
    lines = []
    if not detail:
        lines.append(
            "median ± the wider side of its 95 % interval (wide: over 200 %); ↑ more is better, ↓ less"
        )
        if reference:
            coloured = "" if report.pilot else "; coloured where its interval excludes 1"
            lines.append(f"×: ratio to {reference}, paired by round{coloured}")
    elif reference:
        lines.append(f"ratio to {reference}, paired by round; ?: the robust estimate disagrees")
    if report.tool_share:
        phase, share = max(report.tool_share.items(), key=lambda item: item[1])
        lines.append(f"fsdyno's own cost: at most {100 * share:.2g} % of the time ({phase})")
    lines += report.notes
    if report.pilot:
        lines.append("fewer than 6 rounds: a pilot, without verdicts")
    for line in lines:
        say(line, style="dim", highlight=False)
