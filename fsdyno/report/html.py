"""The report as one self-contained HTML file, readable without a network, today and in ten years.

The answer first, then plots with every single point, then tables, then where it all comes from.
"""

from __future__ import annotations

import json
import shlex
from datetime import datetime
from pathlib import Path
from typing import Any

from fsdyno.report import plots
from fsdyno.report.model import Column, Entry, Missing, Report, Row
from fsdyno.report.numbers import (
    ARROWS,
    Scale,
    interval,
    machine_words,
    ratio_interval,
    scale_for,
    three_digits,
    times,
    with_unit,
)
from fsdyno.report.summary import sentences
from fsdyno.report.tables import UNJUDGED, Panel, absent, alignments, head, headed, lines, panels

_HERE = Path(__file__).parent


def text(report: Report) -> str:
    """The report as HTML; `report` should be `deep`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    env = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "unit": with_unit,
        "clock": _clock,
        "command": shlex.join,
        "pretty": _pretty,
        "sentence": _sentence,
    }
    headlines = [c for c in report.columns if c.headline]
    said = sentences(report)
    return env.get_template("report.html.j2").render(
        report=report,
        rows={row.index: row for row in report.rows},
        css=(_HERE / "report.css").read_text(),
        js=(_HERE / "report.js").read_text(),
        answers=said,
        matrices=[_matrix(report, panel) for panel in panels(report)],
        with_aligned=any(row.aligned is not None for row in report.rows),
        alignments=alignments(report),
        mark=UNJUDGED,
        phases=[_phase(report, name) for name in dict.fromkeys(c.phase for c in report.columns)],
        not_measured=[row for row in report.rows if row.excluded],
        failed=[row for row in report.rows if any(k != "ok" for k in row.outcomes)],
        total=sum(row.trials for row in report.rows),
        counts=[_counts(report, c) for c in headlines if not c.point],
        reference=", ".join(str(v) for v in report.reference.values()),
        machines=[machine_words(machine) for machine in report.machines],
    )


def _clock(seconds: float | None) -> str:
    return "–" if seconds is None else datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True)


def _matrix(report: Report, panel: Panel) -> dict[str, Any]:
    columns = panel.columns
    swept = bool(columns[0].point)  # points of a sweep are compared with one another: one scale
    scales = [
        scale_for([e.median for d in (columns if swept else [c]) for _, e in report.of(d)], c.unit)
        for c in columns
    ]
    heads = [
        {"name": head(c), "unit": f"{s.unit} {ARROWS[c.direction]}"}
        for c, s in zip(columns, scales, strict=True)
    ]
    short = headed(report)
    groups = [
        (
            heading,
            [
                (
                    row,
                    row.short if short else row.name,
                    [_of(report, c, s, row) for c, s in zip(columns, scales, strict=True)],
                )
                for row in rows
            ],
        )
        for heading, rows in lines(report)
    ]
    return {"title": panel.title, "heads": heads, "groups": groups}


def _of(report: Report, column: Column, scale: Scale, row: Row) -> dict[str, str]:
    entry = report.entry(column, row.index)
    if entry is None:
        return _nothing(report.absence(column, row.index))
    return _cell(column, scale, entry, row.reference)


def _nothing(missing: Missing | None) -> dict[str, str]:
    """A place without a number, with the reason where there is one."""
    return {
        "value": absent(missing),
        "interval": "",
        "ratio": "",
        "css": "",
        "mark": "",
        "why": missing.reason if missing else "",
    }


def _cell(column: Column, scale: Scale, entry: Entry, reference: bool = False) -> dict[str, str]:
    known = entry.low is not None
    cell = {
        "value": scale.text(entry.median),
        "interval": interval(entry.low, entry.high, scale) if known else "",
        "ratio": "reference" if reference and not entry.unjudged else "",
        "css": "",
        "mark": UNJUDGED if entry.unjudged else "",
        "why": "",
    }
    if entry.ratio is not None:
        known = entry.ratio.low is not None
        cell["ratio"] = times(entry.ratio) + (f" {ratio_interval(entry.ratio)}" if known else "")
        if entry.ratio.clear and column.direction != "neither":
            better = (entry.ratio.value > 1) == (column.direction == "higher")
            cell["css"] = "better" if better else "worse"
    return cell


def _phase(report: Report, name: str) -> dict[str, Any]:
    """A phase's plots and tables."""
    rows = {row.index: row for row in report.rows}
    columns = [c for c in report.columns if c.phase == name]
    first = [c for c in columns if c.headline] or columns[:1]
    swept = len(first) > 1
    latencies = [one for one in report.latencies if one.phase == name]
    kinds = list(dict.fromkeys((one.point_name, one.op) for one in latencies))
    return {
        "name": name,
        "kind": first[0].kind,
        "load": first[0].load,
        "metric": first[0].metric,
        "better": {"higher": "more is better", "lower": "less is better", "neither": ""}[first[0].direction],
        "plot": plots.lines(report, first) if swept else plots.strip(report, first[0]),
        "tables": [_table(report, c) for c in first],
        "latencies": [
            (
                f"{op} {point}".strip(),
                plots.latency(rows, [x for x in latencies if (x.point_name, x.op) == (point, op)]),
            )
            for point, op in kinds
        ],
        "latency_rows": latencies,
        "traces": plots.traces(
            rows, [t for t in report.traces if t.phase == name], "B/s" if first[0].unit == "B/s" else "1/s"
        ),
        "others": [_table(report, c) for c in columns if not c.headline and c not in first],
        "share": report.tool_share.get(name),
    }


def _table(report: Report, column: Column) -> dict[str, Any]:
    found = report.of(column)
    scale = scale_for([v for _, entry in found for v in entry.values], column.unit)
    made = []
    for row, entry in found:
        ratio = entry.ratio
        made.append(
            {
                "row": row,
                "n": entry.n,
                "median": scale.text(entry.median),
                "mark": UNJUDGED if entry.unjudged else "",
                "interval": interval(entry.low, entry.high, scale),
                "css": _cell(column, scale, entry)["css"],
                "ratio": times(ratio) if ratio else "1" if row.reference and not entry.unjudged else "–",
                "ratio_interval": ratio_interval(ratio) if ratio else "",
                "robust": three_digits(ratio.robust) if ratio and ratio.robust is not None else "",
                "disputed": bool(ratio and ratio.disputed),
            }
        )
    return {"column": column, "unit": scale.unit or "count", "lines": made}


def _counts(report: Report, column: Column) -> dict[str, Any]:
    """What the leaf devices counted in a phase: medians over trials."""
    wanted = ("reads", "read_bytes", "writes", "write_bytes", "flushes", "discards")
    by_metric = {c.metric: c for c in report.columns if c.phase == column.phase and c.point == column.point}
    made = []
    for row in report.rows:
        entries = [report.entry(by_metric[m], row.index) if m in by_metric else None for m in wanted]
        if any(entries):
            made.append((row, [with_unit(e.median, e.column.unit) if e else "–" for e in entries]))
    return {"phase": column.phase, "heads": wanted, "lines": made}
