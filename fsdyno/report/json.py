"""The report for programs: everything that `all` holds, one JSON object.

Keys are those of `fsdyno.report.model`; the shape has a version of its own.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from fsdyno.report.model import Report

FORMAT = 1


def text(report: Report) -> str:
    """The report as JSON, ending in a newline."""
    return json.dumps(data(report), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def data(report: Report) -> dict[str, Any]:
    """The report as plain values. Entries name their column's fields and their cell by index."""
    rows = [{**asdict(row), "title": row.title} for row in report.rows]
    columns = [{**asdict(column), "entries": []} for column in report.columns]
    at = {id(column): i for i, column in enumerate(report.columns)}
    for entry in report.entries:
        plain = {key: value for key, value in asdict(entry).items() if key != "column"}
        if entry.ratio is not None:
            plain["ratio"] |= {"apart": entry.ratio.apart, "disputed": entry.ratio.disputed}
        columns[at[id(entry.column)]]["entries"].append(plain)
    answers = [
        {
            "phase": a.column.phase,
            "point": a.column.point,
            "metric": a.column.metric,
            "group": a.group,
            "text": a.text,
            "claimed": a.claimed,
            "unjudged": a.unjudged,
        }
        for a in report.answers
    ]
    campaign = {
        key: getattr(report, key)
        for key in (
            *("id", "name", "question", "status", "source", "origin", "version", "seed", "started", "ended"),
            *("rounds", "complete_rounds", "pilot", "reference", "where", "where_hash", "hello"),
        )
    }
    return {
        "format": FORMAT,
        "campaign": campaign,
        "answers": answers,
        "cells": rows,
        "columns": columns,
        "problems": report.problems,
        "missing": [asdict(missing) for missing in report.missing],
        "notes": report.notes,
        "machines": report.machines,
        "doubts": [asdict(doubt) for doubt in report.doubts],
        "tool_share": report.tool_share,
        "definitions": report.definitions,
        "plan": report.plan_text,
    }
