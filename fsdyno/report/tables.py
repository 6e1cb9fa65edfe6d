"""What stands in which table, and what is said of the places that stay empty; alike on every medium."""

from __future__ import annotations

from dataclasses import dataclass

from fsdyno.report.model import Column, Missing, Report, Row, title_of
from fsdyno.report.summary import ALWAYS

LONG = 28  # characters of a name that a table has room for

UNJUDGED = "*"
"""The mark on a number that is not compared with anything."""

_SHORT = {"not_applicable": "n/a", "unsupported": "unsupp."}  # outcomes that are too long for a column


@dataclass(frozen=True)
class Panel:
    """One table: a title, which stands over it where its columns do not tell, and its columns."""

    title: str
    columns: list[Column]
    titled: bool = True


def panels(report: Report) -> list[Panel]:
    """The tables. First the answer: the loads, the counts that are told of each phase, what checks took;
    then each swept phase, the counts, and the other steps."""
    headlines = [c for c in report.columns if c.headline]
    counted = [c for c in report.columns if c.counted]
    if not headlines and not counted:
        headlines = report.columns
    swept = {c.phase for c in report.columns if c.point}
    steps = [c for c in headlines if c.kind != "workload" and c.phase not in swept]
    checks = [c for c in steps if c.kind == "check"]
    main = [
        c
        for c in report.columns
        if c.phase not in swept
        and ((c in headlines and c.kind == "workload") or (c in counted and c.metric in ALWAYS))
    ]
    found = [Panel("Loads", [*main, *checks] if main else [], titled=False)]
    for phase in dict.fromkeys(c.phase for c in headlines if c.phase in swept):
        found.append(Panel(phase, [c for c in headlines if c.phase == phase], titled=False))
    found.append(Panel("Counts", [c for c in counted if c.phase not in swept and c not in main]))
    for phase, metric in dict.fromkeys((c.phase, c.metric) for c in counted if c.phase in swept):
        here = [c for c in counted if (c.phase, c.metric) == (phase, metric)]
        found.append(Panel(f"{phase}: {here[0].words}", here))
    others = [c for c in steps if not main or c not in checks]
    found.append(Panel("Other steps", others, titled=False))
    return [panel for panel in found if panel.columns]


def head(column: Column) -> str:
    """What stands over a column of a table: the point of a sweep, or the phase, and its count."""
    if column.point:
        return column.point_name
    return title_of(column)


def lines(report: Report) -> list[tuple[str, list[Row]]]:
    """The rows of tables, those without a disk last, under headings where names are long: (heading, rows)."""
    rows = sorted((row for row in report.rows if not row.excluded), key=lambda row: row.limit)
    if not headed(report):
        return [("", rows)]
    return [
        (group, [row for row in rows if row.group == group]) for group in dict.fromkeys(r.group for r in rows)
    ]


def headed(report: Report) -> bool:
    """Whether rows stand under the headings of their groups, by their short names."""
    rows = [row for row in report.rows if not row.excluded]
    return any(row.group for row in rows) and any(len(row.name) > LONG for row in rows)


def alignments(report: Report) -> list[str]:
    """What the media say about alignment, what is not aligned first, each sentence once with its rows."""
    said: dict[tuple[bool, str], dict[str, list[Row]]] = {}
    for row in sorted(report.rows, key=lambda row: row.aligned is True):
        if row.alignment:
            key = (row.aligned is True, "; ".join(row.alignment))
            said.setdefault(key, {}).setdefault(row.group, []).append(row)
    return [
        "; ".join(
            f"{f'{group}: ' if group else ''}{' and '.join(row.short for row in rows)}"
            for group, rows in where.items()
        )
        + f": {sentence}"
        for (_, sentence), where in said.items()
    ]


def absences(report: Report) -> list[str]:
    """Why tables have no number where a phase did not apply: a sentence for each cell and reason."""
    found: dict[tuple[int, str], dict[str, None]] = {}
    for missing in report.missing:
        if missing.outcome == "not_applicable":
            found.setdefault((missing.cell, missing.reason), {})[missing.phase] = None
    names = {row.index: row.name for row in report.rows}
    return [
        f"{names[cell]}: {', '.join(phases)} not applicable: {reason}"
        for (cell, reason), phases in found.items()
    ]


def absent(missing: Missing | None) -> str:
    """What stands where there is no number."""
    return "–" if missing is None else _SHORT.get(missing.outcome, missing.outcome.replace("_", " "))
