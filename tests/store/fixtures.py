"""Hand-made events and campaigns in the wire's own words (agent/spec/src/event.rs).

Numbers are seeded and plausible; nothing here is a measurement.
"""

from __future__ import annotations

import base64
import hashlib
import random
import uuid
import zlib
from typing import Any

from fsdyno.store import Store

METRICS: list[dict[str, Any]] = [
    {"name": name, "unit": unit, "direction": direction, "version": 1, "definition": f"definition of {name}"}
    for name, unit, direction in (
        ("wall_seconds", "s", "lower"),
        ("operations_per_second", "1/s", "higher"),
        ("bytes_per_second", "B/s", "higher"),
        ("latency_p50", "s", "lower"),
        ("latency_p99", "s", "lower"),
        ("latency_p999", "s", "lower"),
        ("cpu_seconds", "s", "lower"),
        ("sync_seconds", "s", "lower"),
        ("busy_share", "1", "neither"),
        ("tool_share", "1", "neither"),
        ("reads", "1", "neither"),
        ("read_bytes", "B", "neither"),
        ("writes", "1", "neither"),
        ("write_bytes", "B", "neither"),
        ("flushes", "1", "neither"),
        ("requests", "1", "neither"),
        ("requests_per_operation", "1", "lower"),
        ("member_read_per_written", "1", "lower"),
        ("member_written_per_written", "1", "lower"),
        ("flushes_per_fsync", "1", "neither"),
        ("discards", "1", "neither"),
        ("discard_bytes", "B", "neither"),
    )
]

CALIBRATION = {"clock": "tsc", "clock_ns": 18.0, "operation_ns": 61.0, "syscall_ns": 95.0}


def bin_of(ns: int) -> int:
    """As agent/spec/src/histogram.rs."""
    if ns < 128:
        return ns
    exponent = ns.bit_length() - 7
    return (exponent + 1) * 64 + ((ns >> exponent) & 63)


def histogram(values: list[int]) -> dict[str, Any]:
    """The wire's histogram of latencies in ns."""
    bins: dict[int, int] = {}
    for value in values:
        bins[bin_of(value)] = bins.get(bin_of(value), 0) + 1
    return {
        "count": len(values),
        "sum": sum(values),
        "min": min(values, default=0),
        "max": max(values, default=0),
        "bins": [[i, bins[i]] for i in sorted(bins)],
    }


def workload(
    kind: str, ops: dict[str, tuple[int, int]], elapsed: float, sync: float, seed: int
) -> dict[str, Any]:
    """A workload's result; `ops` maps an operation to (count, bytes)."""
    rng = random.Random(seed)
    operations = []
    for op, (count, size) in ops.items():
        mean = elapsed / max(count, 1) * 1e9
        sampled = [max(1, int(rng.lognormvariate(0, 0.4) * mean)) for _ in range(min(count, 2000))]
        wire = histogram(sampled)
        factor, rest = divmod(count, max(len(sampled), 1))
        wire["bins"] = [[i, c * factor] for i, c in wire["bins"]]
        wire["bins"][0][1] += rest
        wire["count"] = count
        operations.append({"op": op, "count": count, "bytes": size, "latency": wire})
    total = sum(c for c, _ in ops.values())
    moved = sum(b for _, b in ops.values())
    ticks = max(1, min(20, int(elapsed / 0.1)))
    return {
        "kind": kind,
        "threads": 2,
        "elapsed": elapsed,
        "sync": sync,
        "operations": operations,
        "series": {
            "interval": elapsed / ticks,
            "operations": [int(total / ticks * rng.uniform(0.8, 1.2)) for _ in range(ticks)],
            "bytes": [int(moved / ticks * rng.uniform(0.8, 1.2)) for _ in range(ticks)],
        },
        "engine": ["pwrite"],
        "claim": {"read": 0, "written": moved, "direct": False, "inodes": 0},
        "tool_cost": {"per_operation_ns": 61.0, "share": 61.0 * total / (elapsed * 2e9)},
    }


def leaf(**counts: int) -> dict[str, Any]:
    """Counters of a leaf device."""
    zero = dict.fromkeys(
        (
            "reads",
            "read_bytes",
            "writes",
            "write_bytes",
            "discards",
            "discard_bytes",
            "flushes",
            "merges",
            "busy_ms",
        ),
        0,
    )
    return {"device": "loop0", **zero, **counts}


def phase_end(index: int, name: str, kind: str, wall: float, **more: Any) -> dict[str, Any]:
    """A `phase_end` event, without its envelope."""
    event = {
        "event": "phase_end",
        "index": index,
        "name": name,
        "kind": kind,
        "outcome": "ok",
        "start_ns": 1_000_000_000 * (index + 1),
        "wall": wall,
        "cpu": {
            "user": wall * 0.1,
            "system": wall * 0.3,
            "voluntary_switches": 10,
            "involuntary_switches": 2,
        },
        "leaves": [leaf(reads=3, read_bytes=12288, writes=100, write_bytes=409600, flushes=2)],
        "underneath": [],
        "host": {"pages_dirtied": 100, "pages_written": 100, "steal": 0.0, "busy": wall},
        "kernel_log": [],
        "tools": [],
        "facts": {},
        "flags": [],
    }
    return {key: value for key, value in (event | more).items() if value is not None}


def artefact(name: str, data: bytes, parts: int = 1) -> list[dict[str, Any]]:
    """The events that carry a file."""
    stream = zlib.compress(data)
    size = -(-len(stream) // parts)
    sha = hashlib.sha256(data).hexdigest()
    return [
        {
            "event": "artefact",
            "sha256": sha,
            "name": name,
            "part": part,
            "parts": parts,
            "data": base64.b64encode(stream[part * size : (part + 1) * size]).decode(),
        }
        for part in range(parts)
    ]


def enveloped(trial: str, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Puts events into envelopes of one native agent."""
    boot = "00000000-0000-4000-8000-000000000001"
    return [
        {"seq": i, "from": "rig", "boot": boot, "at_ns": 10**9 + i, "trial": trial, **event}
        for i, event in enumerate(events)
    ]


def cells(names: list[str], phases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Cells of one axis, `filesystem`."""
    return [
        {
            "index": i,
            "name": name,
            "label": {"filesystem": name},
            "spec": {"filesystem": {"type": name}, "phases": phases},
            "what": hashlib.sha256(name.encode()).hexdigest(),
        }
        for i, name in enumerate(names)
    ]


def start(store: Store, names: list[str], *, phases: list[dict[str, Any]] | None = None, **more: Any) -> str:
    """Starts a campaign that compares file systems."""
    given: dict[str, Any] = {
        "name": "quickstart",
        "question": "Which file system is fastest here?",
        "plan_text": 'question = "Which file system is fastest here?"\n',
        "cells": cells(names, phases or [{"name": "create"}]),
        "points": [{}],
        "reference": {"filesystem": names[0]},
        "rounds": 6,
        "seed": 42,
        "where": {"rig": {"name": "bench"}, "kernel": "6.18.0", "engine": 1, "place": "native"},
        "describe": {"protocol": 1, "engine": 1, "metrics": METRICS},
        "survey": {"protocol": 1, "host": {"name": "bench", "kernel": "6.18.0"}},
        "hello": {"protocol": 1, "version": "0.1.0", "engine": 1, "calibration": CALIBRATION},
        "version": "0.1.0",
        "origin": "plans/quickstart.toml",
    }
    return store.start_campaign(**(given | more))


def record(
    store: Store, campaign: str, cell: int, rnd: int, events: list[dict[str, Any]], **more: Any
) -> str:
    """Records a trial with these events (envelopes are added); returns its id."""
    trial = str(uuid.uuid4())
    given: dict[str, Any] = {
        "trial": trial,
        "cell": cell,
        "round": rnd,
        "position": cell,
        "attempt": 1,
        "outcome": "ok",
        "reason": None,
        "flags": [],
        "started": 1_800_000_000.0 + rnd * 100 + cell * 10,
        "ended": 1_800_000_005.0 + rnd * 100 + cell * 10,
        "events": enveloped(trial, events),
    }
    store.record_trial(campaign, **(given | more))
    return str(given["trial"])
