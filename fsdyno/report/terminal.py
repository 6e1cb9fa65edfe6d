"""The report on a terminal: the answer in sentences, then a table that fits the screen.

One matrix shows every file system in every phase, headline metric and ratio; `--phase` or `--metric`
show one at a time with intervals. Nothing is wider than the terminal.
"""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING

from rich.markup import escape

from fsdyno.report.matrix import coloured, print_tables
from fsdyno.report.model import Column, Report, Row
from fsdyno.report.numbers import interval, ratio_interval, scale_for, three_digits, times
from fsdyno.report.summary import sentences
from fsdyno.report.tables import UNJUDGED, absences, alignments

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def render(report: Report, console: Console, *, detail: bool = False) -> None:
    """Prints the report; `detail` prints a table per column with intervals instead of the matrix, and an
    answer for each."""
    _head(report, console)
    said = sentences(report, everything=detail)
    for sentence, claimed in said:
        console.print(sentence, style="bold" if claimed else None, highlight=False, markup=False)
    console.print()
    if detail:
        for column in report.columns:
            console.print(_detail(report, column))
    else:
        print_tables(report, console)
    _foot(report, console, detail, " ".join(sentence for sentence, _ in said))


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


def _table() -> Table:
    from rich.table import Table

    return Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_edge=False)


def _title(row: Row) -> str:
    return f"{escape(row.title)} [yellow]![/yellow]" if row.suspects else escape(row.title)


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
        mark = UNJUDGED if entry.unjudged else ""
        cells = [
            *(_title(row), str(entry.n), f"{scale.text(entry.median)}{mark}"),
            interval(entry.low, entry.high, scale),
        ]
        ratio = entry.ratio
        if ratio is None:
            cells += ["1" if row.reference and not entry.unjudged else "–", "", ""]
        else:
            mark = " ?" if ratio.disputed else ""
            robust = "–" if ratio.robust is None else f"{three_digits(ratio.robust)}{mark}"
            cells += [
                coloured(times(ratio), column, ratio.value, ratio.clear),
                ratio_interval(ratio),
                robust,
            ]
        table.add_row(*cells)
    table.caption = " "
    return table


def _foot(report: Report, console: Console, detail: bool, said: str) -> None:
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
    for text in alignments(report):
        say(text, style="dim", highlight=False)
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
    if report.unjudged:
        why = "; ".join(why for why in report.unjudged if why not in said) or "see above"
        lines.append(f"{UNJUDGED}: not compared: {why}")
    if report.tool_share:
        phase, share = max(report.tool_share.items(), key=lambda item: item[1])
        lines.append(f"fsdyno's own cost: at most {100 * share:.2g} % of the time ({phase})")
    lines += report.notes
    if report.pilot:
        lines.append("fewer than 6 rounds: a pilot, without verdicts")
    for line in lines:
        say(line, style="dim", highlight=False)
