"""Samples from events: the definitions of fsdyno's metrics, and nothing else.

Pure functions. A sample is one number of one metric at one point of one phase of one trial. Only
phases that ended `ok` give samples. The names, units and directions are in the agent's `describe`;
raise the version there when a definition here changes, then run `fsdyno store rebuild`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fsdyno.stats.histogram import Histogram
from fsdyno.store.records import canonical

# Operations that only prepare, force or tidy; the others are what the workload is about.
_HELPERS = frozenset({"fsync", "mkdir", "rmdir"})

# Quantiles with the number of operations that they need: 10 / (1 - q) (design.md §6).
_QUANTILES = (("latency_p50", 0.5, 20), ("latency_p99", 0.99, 1_000), ("latency_p999", 0.999, 10_000))

# Operations that write bytes. One that reads, too, makes what the leaves read no longer a cost of writing.
_WRITING = frozenset({"write", "create"})

_LEAF_COUNTS = ("reads", "read_bytes", "writes", "write_bytes", "flushes", "discards", "discard_bytes")


@dataclass(frozen=True)
class PhaseSamples:
    """The samples of one phase: metric -> value, in the units of the metric table."""

    phase: str
    kind: str
    load: str | None
    point: str  # canonical JSON
    ordinal: int
    values: dict[str, float]


@dataclass(frozen=True)
class Note:
    """A phase with another outcome than ok, or with doubts."""

    index: int
    phase: str
    point: str
    outcome: str
    reason: dict[str, Any] | None
    flags: list[dict[str, Any]]


@dataclass(frozen=True)
class Derived:
    """Everything that follows from the events of a trial."""

    samples: list[PhaseSamples]
    notes: list[Note]
    driver: str | None


def derive(events: list[dict[str, Any]], cpus: int | None = None) -> Derived:
    """What follows from the events of a trial on a machine with so many CPUs, where that is known."""
    samples, notes = [], []
    for event in events:
        if event.get("event") != "phase_end":
            continue
        point = canonical(event.get("point") or {})
        index = int(event["index"])
        outcome = str(event["outcome"])
        if outcome == "ok":
            load = (event.get("workload") or {}).get("kind")
            samples.append(
                PhaseSamples(event["name"], event["kind"], load, point, index, phase_values(event, cpus))
            )
        flags = event.get("flags") or []
        if outcome != "ok" or flags:
            notes.append(Note(index, event["name"], point, outcome, event.get("reason"), flags))
    return Derived(samples, notes, _driver(events))


def phase_values(event: dict[str, Any], cpus: int | None = None) -> dict[str, float]:
    """Metric -> value for one `phase_end`."""
    values = {
        "wall_seconds": float(event["wall"]),
        "cpu_seconds": float(event["cpu"]["user"]) + float(event["cpu"]["system"]),
    }
    workload = event.get("workload")
    usable = values["wall_seconds"] * min(cpus or 0, int(workload["threads"]) if workload else 1)
    if usable > 0:
        values["busy_share"] = float(event["host"]["busy"]) / usable
    leaves = event.get("leaves") or []
    if leaves:  # no leaf: nothing was counted, which is not the same as zero
        for name in _LEAF_COUNTS:
            values[name] = float(sum(leaf[name] for leaf in leaves))
        values["requests"] = values["reads"] + values["writes"]
    if workload:
        values.update(_workload_values(workload))
    if workload and leaves:
        values.update(_per_work(workload, values))
    return values


def _per_work(workload: dict[str, Any], counts: dict[str, float]) -> dict[str, float]:
    """What the leaves did for each piece of work. `counts` are theirs, summed."""
    work = main_operations(workload)
    operations = sum(int(op["count"]) for op in work)
    written = sum(int(op["bytes"]) for op in work if op["op"] in _WRITING)
    read = sum(int(op["bytes"]) for op in work if op["op"] not in _WRITING)
    fsyncs = sum(int(op["count"]) for op in workload["operations"] if op["op"] == "fsync")
    values = {}
    if operations:
        values["requests_per_operation"] = counts["requests"] / operations
    if written:
        values["member_written_per_written"] = counts["write_bytes"] / written
        if not read:
            values["member_read_per_written"] = counts["read_bytes"] / written
    if fsyncs:
        values["flushes_per_fsync"] = counts["flushes"] / fsyncs
    return values


def main_operations(workload: dict[str, Any]) -> list[dict[str, Any]]:
    """The operations that the workload is about, without those that only prepare, force or tidy."""
    return [op for op in workload["operations"] if op["op"] not in _HELPERS]


def _workload_values(workload: dict[str, Any]) -> dict[str, float]:
    # The time of the work with its final sync; starting threads and opening rings is not work.
    total = float(workload["elapsed"]) + float(workload["sync"])
    main = main_operations(workload)
    count = sum(int(op["count"]) for op in main)
    moved = sum(int(op["bytes"]) for op in main)
    values = {"sync_seconds": float(workload["sync"]), "tool_share": float(workload["tool_cost"]["share"])}
    if total > 0 and count:
        values["operations_per_second"] = count / total
    if total > 0 and moved:
        values["bytes_per_second"] = moved / total
    latency = Histogram.merged(Histogram.from_wire(op["latency"]) for op in main)
    for name, q, enough in _QUANTILES:
        if latency.count >= enough:
            values[name] = latency.quantile(q) / 1e9
    return values


def _driver(events: list[dict[str, Any]]) -> str | None:
    """The kernel driver that served the file system, as the last mount read it back."""
    driver = None
    for event in events:
        mounted = event.get("event") == "built" and event.get("part") in ("mount", "directory")
        if mounted or event.get("event") == "phase_end":
            found = (event.get("facts") or {}).get("driver")
            driver = str(found) if found else driver
    return driver
