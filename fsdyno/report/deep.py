"""What only the events hold: merged latencies, work per interval, tools, facts, the kernel's log.

Reads every event of the campaign once; `headline` and `all` reports do without.
"""

from __future__ import annotations

from typing import Any

from fsdyno.report.model import Evidence, Latency, LogLine, Report, Trace
from fsdyno.report.show import told_once
from fsdyno.stats.histogram import Histogram
from fsdyno.store import Store, Trial, canonical

# Share of operations with the number of operations that it needs: 10 / (1 - q) (design.md §6).
PERCENTILES = (("p50", 0.5, 20), ("p90", 0.9, 100), ("p99", 0.99, 1_000), ("p99.9", 0.999, 10_000))
MOST_LOG_LINES = 500

_Key = tuple[str, str, int]  # phase, point, cell


def deepen(store: Store, report: Report, trials: list[Trial]) -> None:
    """Fills the lists of a report that come from events."""
    names = {(c.phase, canonical(c.point)): c.point_name for c in report.columns}
    typical = _typical(report)
    merged: dict[tuple[_Key, str], list[Histogram]] = {}
    traces: dict[_Key, Trace] = {}
    shown: set[int] = set()
    order = {c.phase: i for i, c in reversed(list(enumerate(report.columns)))}
    for trial in trials:
        events = store.events(trial.id)
        if trial.cell not in shown and trial.outcome == "ok":
            shown.add(trial.cell)
            report.evidence.append(evidence(trial, events))
        for event in events:
            if event["event"] != "phase_end":
                continue
            for line in event.get("kernel_log") or []:
                if len(report.kernel_log) < MOST_LOG_LINES:
                    report.kernel_log.append(LogLine(trial.cell, trial.round, event["name"], line))
            work = event.get("workload")
            if not work or event["outcome"] != "ok":
                continue
            point = event.get("point") or {}
            key = (event["name"], canonical(point), trial.cell)
            for op in work["operations"]:
                merged.setdefault((key, op["op"]), []).append(Histogram.from_wire(op["latency"]))
            if typical.get(key) == trial.id:
                series = work["series"]
                traces[key] = Trace(
                    event["name"],
                    names.get(key[:2], ""),
                    trial.cell,
                    trial.id,
                    float(series["interval"]),
                    series["operations"],
                    series["bytes"],
                )
    place = {(c.phase, canonical(c.point)): i for i, c in reversed(list(enumerate(report.columns)))}

    def rank(key: _Key) -> tuple[int, int, int]:
        return order.get(key[0], 0), place.get(key[:2], 0), key[2]

    for key, op in sorted(merged, key=lambda item: rank(item[0])):
        report.latencies.append(_latency(key, names.get(key[:2], ""), op, Histogram.merged(merged[key, op])))
    report.traces.extend(traces[key] for key in sorted(traces, key=rank))
    report.evidence.sort(key=lambda one: one.cell)


def _typical(report: Report) -> dict[_Key, str]:
    """For each phase, point and cell the trial whose headline is nearest to the median."""
    found = {}
    for entry in report.entries:
        column = entry.column
        if column.headline:
            at = min(range(entry.n), key=lambda i: abs(entry.values[i] - entry.median))
            found[column.phase, canonical(column.point), entry.cell] = entry.trials[at]
    return found


def _latency(key: _Key, name: str, op: str, merged: Histogram) -> Latency:
    percentiles = {p: merged.quantile(q) / 1e9 for p, q, enough in PERCENTILES if merged.count >= enough}
    return Latency(key[0], name, key[2], op, merged.count, merged.mean / 1e9, percentiles, merged.max / 1e9)


def evidence(trial: Trial, events: list[dict[str, Any]]) -> Evidence:
    """What a trial read back and ran."""
    facts: list[tuple[str, dict[str, Any]]] = []
    tools: list[dict[str, Any]] = []
    shell: list[dict[str, Any]] = []
    for event in told_once(events):
        if event["event"] == "built" and event["facts"]:
            facts.append((event["part"], event["facts"]))
        elif event["event"] == "phase_end":
            if event.get("facts"):
                facts.append((event["name"], event["facts"]))
            keep = ("argv", "version", "exit", "meaning", "wall")
            tools += [
                {"phase": event["name"], **{k: t.get(k) for k in keep}} for t in event.get("tools") or []
            ]
        elif event["event"] == "end":
            shell = event.get("shell") or []
    return Evidence(trial.cell, trial.id, facts, tools, shell)
