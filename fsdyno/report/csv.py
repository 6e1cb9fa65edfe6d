"""The report for spreadsheets: one line per sample, with everything needed to group and check it."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime

from fsdyno.report.model import Report

HEAD = (
    *("campaign", "started", "cell", "driver", "emulated", "barriers", "aligned", "phase", "point"),
    *("metric", "unit", "direction", "round", "trial", "suspect", "judged", "value"),
)


def text(report: Report) -> str:
    """The samples as CSV with a header, numbers in base units at full precision."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    started = datetime.fromtimestamp(report.started, UTC).isoformat(timespec="seconds")
    rows = {row.index: row for row in report.rows}
    for entry in report.entries:
        row, column = rows[entry.cell], entry.column
        head = (
            report.id,
            started,
            row.name,
            row.driver or "",
            int(row.emulated),
            row.barriers,
            "" if row.aligned is None else int(row.aligned),
            column.phase,
            column.point_name,
            column.metric,
        )
        for value, rnd, trial, suspect in zip(
            entry.values, entry.rounds, entry.trials, entry.suspect, strict=True
        ):
            writer.writerow(
                [
                    *(*head, column.unit, column.direction, rnd, trial),
                    *(int(suspect), int(entry.unjudged is None), repr(value)),
                ]
            )
    return out.getvalue()
