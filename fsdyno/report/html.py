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
from fsdyno.report.answer import summary
from fsdyno.report.model import ON_FILES, Column, Entry, Report
from fsdyno.report.numbers import (
    ARROWS,
    Scale,
    interval,
    ratio_interval,
    scale_for,
    three_digits,
    times,
    with_unit,
)

_HERE = Path(__file__).parent
_ANSWERED = ("workload", "mkfs", "check")


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
    env.filters |= {"unit": with_unit, "clock": _clock, "command": shlex.join, "pretty": _pretty}
    headlines = [c for c in report.columns if c.headline]
    answers = [a for a in report.answers if a.column.headline and a.column.kind in _ANSWERED]
    return env.get_template("report.html.j2").render(
        report=report,
        rows={row.index: row for row in report.rows},
        css=(_HERE / "report.css").read_text(),
        js=(_HERE / "report.js").read_text(),
        answers=summary(answers),
        matrices=_matrices(report, headlines),
        phases=[_phase(report, name) for name in dict.fromkeys(c.phase for c in report.columns)],
        not_measured=[row for row in report.rows if row.excluded],
        failed=[row for row in report.rows if any(k != "ok" for k in row.outcomes)],
        total=sum(row.trials for row in report.rows),
        counts=[_counts(report, c) for c in headlines if not c.point],
        on_files=ON_FILES if report.on_files else None,
        reference=", ".join(str(v) for v in report.reference.values()),
    )


def _clock(seconds: float | None) -> str:
    return "–" if seconds is None else datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True)


def _matrices(report: Report, headlines: list[Column]) -> list[dict[str, Any]]:
    """Tables with file systems as rows: loads, other steps, then each swept phase."""
    swept = {c.phase for c in headlines if c.point}
    plain = [c for c in headlines if c.phase not in swept]
    groups = [
        ("Loads", [c for c in plain if c.kind == "workload"]),
        ("Other steps", [c for c in plain if c.kind != "workload"]),
        *(
            (phase, [c for c in headlines if c.phase == phase])
            for phase in dict.fromkeys(c.phase for c in headlines)
            if phase in swept
        ),
    ]
    return [_matrix(report, title, columns) for title, columns in groups if columns]


def _matrix(report: Report, title: str, columns: list[Column]) -> dict[str, Any]:
    swept = bool(columns[0].point)  # points of a sweep are compared with one another: one scale
    scales = [
        scale_for([e.median for d in (columns if swept else [c]) for _, e in report.of(d)], c.unit)
        for c in columns
    ]
    heads = [
        {"name": c.point_name or c.phase, "unit": f"{s.unit} {ARROWS[c.direction]}"}
        for c, s in zip(columns, scales, strict=True)
    ]
    lines = []
    for row in sorted(report.rows, key=lambda row: row.limit):
        if not row.excluded:
            pairs = zip(columns, scales, strict=True)
            lines.append((row, [_cell(c, s, report.entry(c, row.index), row.reference) for c, s in pairs]))
    return {"title": title, "heads": heads, "lines": lines}


def _cell(column: Column, scale: Scale, entry: Entry | None, reference: bool = False) -> dict[str, str]:
    if entry is None:
        return {"value": "–", "interval": "", "ratio": "", "css": ""}
    known = entry.low is not None
    cell = {
        "value": scale.text(entry.median),
        "interval": interval(entry.low, entry.high, scale) if known else "",
        "ratio": "reference" if reference else "",
        "css": "",
    }
    if entry.ratio is not None:
        cell["ratio"] = f"{times(entry.ratio)} {ratio_interval(entry.ratio)}"
        if entry.ratio.clear and column.direction != "neither":
            better = (entry.ratio.value > 1) == (column.direction == "higher")
            cell["css"] = "better" if better else "worse"
    return cell


def _phase(report: Report, name: str) -> dict[str, Any]:
    """A phase's plots and tables."""
    rows = {row.index: row for row in report.rows}
    columns = [c for c in report.columns if c.phase == name]
    head = [c for c in columns if c.headline] or columns[:1]
    swept = len(head) > 1
    latencies = [one for one in report.latencies if one.phase == name]
    kinds = list(dict.fromkeys((one.point_name, one.op) for one in latencies))
    return {
        "name": name,
        "kind": head[0].kind,
        "load": head[0].load,
        "metric": head[0].metric,
        "better": {"higher": "more is better", "lower": "less is better", "neither": ""}[head[0].direction],
        "plot": plots.lines(report, head) if swept else plots.strip(report, head[0]),
        "tables": [_table(report, c) for c in head],
        "latencies": [
            (
                f"{op} {point}".strip(),
                plots.latency(rows, [x for x in latencies if (x.point_name, x.op) == (point, op)]),
            )
            for point, op in kinds
        ],
        "latency_rows": latencies,
        "traces": plots.traces(
            rows, [t for t in report.traces if t.phase == name], "B/s" if head[0].unit == "B/s" else "1/s"
        ),
        "others": [_table(report, c) for c in columns if not c.headline and c not in head],
        "share": report.tool_share.get(name),
    }


def _table(report: Report, column: Column) -> dict[str, Any]:
    found = report.of(column)
    scale = scale_for([v for _, entry in found for v in entry.values], column.unit)
    lines = []
    for row, entry in found:
        ratio = entry.ratio
        lines.append(
            {
                "row": row,
                "n": entry.n,
                "median": scale.text(entry.median),
                "interval": interval(entry.low, entry.high, scale),
                "css": _cell(column, scale, entry)["css"],
                "ratio": times(ratio) if ratio else "1" if row.reference else "–",
                "ratio_interval": ratio_interval(ratio) if ratio else "",
                "robust": three_digits(ratio.robust) if ratio and ratio.robust is not None else "",
                "disputed": bool(ratio and ratio.disputed),
            }
        )
    return {"column": column, "unit": scale.unit or "count", "lines": lines}


def _counts(report: Report, column: Column) -> dict[str, Any]:
    """What the leaf devices counted in a phase: medians over trials."""
    wanted = ("reads", "read_bytes", "writes", "write_bytes", "flushes", "discards")
    by_metric = {c.metric: c for c in report.columns if c.phase == column.phase and c.point == column.point}
    lines = []
    for row in report.rows:
        entries = [report.entry(by_metric[m], row.index) if m in by_metric else None for m in wanted]
        if any(entries):
            lines.append((row, [with_unit(e.median, e.column.unit) if e else "–" for e in entries]))
    return {"phase": column.phase, "heads": wanted, "lines": lines}
