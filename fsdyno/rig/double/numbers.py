"""Invented measurements with known effects.

A phase's speed is `base × effect × round noise × own noise`. The effect is the product of the factors
in `effects` whose key occurs in the spec's JSON (so a test can slow one cell down by a stated amount);
the round noise is common to all cells of a round, as a shared machine's mood would be, so that pairing
by round has something to remove.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field
from typing import Any

BASE_OPERATIONS = 20_000.0  # small-file operations, 1/s
BASE_BYTES = 400e6  # streamed, B/s
BASE_STEP = 0.05  # mkfs, mount and other steps, s
ROUND_SPREAD = 0.05
OWN_SPREAD = 0.02

Phase = dict[str, Any]


@dataclass
class Numbers:
    """Makes the `phase_end` fields of a trial's phases."""

    seed: int
    spec: dict[str, Any]
    effects: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        text = json.dumps(self.spec, sort_keys=True)
        self._own = random.Random(f"{self.seed} {text}")
        self._mood = math.exp(random.Random(self.seed).gauss(0, ROUND_SPREAD))
        self._effect = math.prod(factor for key, factor in self.effects.items() if key in text)
        self._clock = 1_000_000_000

    def measure(self, phase: Phase) -> dict[str, Any]:
        """What `phase_end` says beyond the phase's name: wall time, counters, workload."""
        speed = self._effect * self._mood * math.exp(self._own.gauss(0, OWN_SPREAD))
        load = phase.get("workload")
        work = self._work(load) if load else None
        wall = BASE_STEP / speed if work is None else work["seconds"] / speed
        start, self._clock = self._clock, self._clock + int(wall * 1e9) + 1_000_000
        moved = work["bytes"] if work else 4 << 20
        written = moved if not work or work["op"] in ("write", "create") else 0
        read = moved if work and work["op"] == "read" else 0
        answer: dict[str, Any] = {
            "outcome": "ok",
            "start_ns": start,
            "wall": wall,
            "cpu": _cpu(wall),
            "leaves": [_counts("double0", read, written)],
            "underneath": [],
            "host": {
                "pages_dirtied": written >> 12,
                "pages_written": written >> 12,
                "steal": 0.0,
                "busy": wall,
            },
            "kernel_log": [],
            "tools": [],
            "facts": {},
            "flags": [],
        }
        if work:
            answer["workload"] = _workload(work, wall)
        return answer

    def _work(self, load: dict[str, Any]) -> dict[str, Any]:
        """Operations and bytes of a load, and how long they take at speed 1."""
        kind, what = next(iter(load.items()))
        dataset = self.spec.get("datasets", {}).get(what.get("dataset"), {})
        files, size = int(dataset.get("files", 100)), int(dataset.get("size", 0))
        threads = int(what.get("threads", 1))
        gain = threads / (1 + 0.1 * (threads - 1))
        op = str(what.get("op", "read"))
        record = int(what.get("record") or 4096)
        if kind == "tree":
            seconds = files / (BASE_OPERATIONS * gain)
            moved = files * size if op in ("create", "read") else 0
            return {
                "kind": kind,
                "op": op,
                "threads": threads,
                "count": files,
                "bytes": moved,
                "seconds": seconds,
            }
        if what.get("runtime"):
            seconds = float(what["runtime"])
            count = max(1, int(seconds * BASE_OPERATIONS * gain * self._mood * self._effect))
        else:
            count = int(what.get("operations") or max(1, files * size // record))
            seconds = count * record / (BASE_BYTES * gain)
        op = "read" if op == "mix" else "write" if op == "rewrite" else op
        return {
            "kind": kind,
            "op": op,
            "threads": threads,
            "count": count,
            "bytes": count * record,
            "seconds": seconds,
        }


def _workload(work: dict[str, Any], wall: float) -> dict[str, Any]:
    mean_ns = max(1, int(wall * 1e9 * work["threads"] / work["count"]))
    return {
        "kind": work["kind"],
        "threads": work["threads"],
        "elapsed": wall,
        "sync": 0.0,
        "operations": [
            {
                "op": work["op"],
                "count": work["count"],
                "bytes": work["bytes"],
                "latency": {
                    "count": work["count"],
                    "sum": work["count"] * mean_ns,
                    "min": mean_ns,
                    "max": mean_ns,
                    "bins": [[_bin(mean_ns), work["count"]]],
                },
            }
        ],
        "series": {"interval": wall, "operations": [work["count"]], "bytes": [work["bytes"]]},
        "engine": ["double"],
        "claim": {"read": 0, "written": 0, "direct": False, "inodes": 0},
        "tool_cost": {"per_operation_ns": 50.0, "share": 50.0 / (50.0 + mean_ns)},
    }


def _bin(ns: int) -> int:
    """The wire format's bin of a latency: 64 sub-buckets an octave (agent/spec histogram.rs)."""
    if ns < 128:
        return ns
    exponent = ns.bit_length() - 7
    return int(min((exponent + 1) * 64 + ((ns >> exponent) & 63), 29 * 64 - 1))


def _cpu(wall: float) -> dict[str, Any]:
    return {
        "user": wall * 0.1,
        "system": wall * 0.3,
        "voluntary_switches": 10,
        "involuntary_switches": 1,
    }


def _counts(device: str, read: int, written: int) -> dict[str, Any]:
    return {
        "device": device,
        "reads": read >> 17,
        "read_bytes": read,
        "writes": written >> 17,
        "write_bytes": written,
        "discards": 0,
        "discard_bytes": 0,
        "flushes": 2,
        "merges": 0,
        "busy_ms": 10,
    }
