"""What stands in which table, and what is said of the places that stay empty; alike on every medium."""

from __future__ import annotations

from fsdyno.report.model import Column, Missing, Report

_SHORT = {"not_applicable": "n/a", "unsupported": "unsupp."}  # outcomes that are too long for a column


def groups(report: Report) -> list[tuple[str, list[Column]]]:
    """Titles and columns of the tables: loads, the other steps, each swept phase, then the counts."""
    headlines = [c for c in report.columns if c.headline]
    counted = [c for c in report.columns if c.counted]
    if not headlines and not counted:
        headlines = report.columns
    swept = {c.phase for c in report.columns if c.point}
    plain = [c for c in headlines if c.phase not in swept]
    found = [
        ("Loads", [c for c in plain if c.kind == "workload"]),
        ("Other steps", [c for c in plain if c.kind != "workload"]),
    ]
    for phase in dict.fromkeys(c.phase for c in headlines if c.phase in swept):
        found.append((phase, [c for c in headlines if c.phase == phase]))
    for phase in dict.fromkeys(c.phase for c in counted):
        mine = [c for c in counted if c.phase == phase]
        if phase not in swept:
            found.append((f"{phase}: counts", mine))
            continue
        for metric in dict.fromkeys(c.metric for c in mine):
            here = [c for c in mine if c.metric == metric]
            found.append((f"{phase}: {here[0].words}", here))
    return [(title, columns) for title, columns in found if columns]


def head(column: Column) -> str:
    """What stands over a column of a table: the point of a sweep, a count, or the phase."""
    if column.point:
        return column.point_name
    return column.words if column.counted else column.phase


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
