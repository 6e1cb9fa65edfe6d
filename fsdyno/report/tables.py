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
    for metric in dict.fromkeys(c.metric for c in counted):
        mine = [c for c in counted if c.metric == metric]
        words = mine[0].words.capitalize()
        found.append((words, [c for c in mine if c.phase not in swept]))
        for phase in dict.fromkeys(c.phase for c in mine if c.phase in swept):
            found.append((f"{words}, {phase}", [c for c in mine if c.phase == phase]))
    return [(title, columns) for title, columns in found if columns]


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
