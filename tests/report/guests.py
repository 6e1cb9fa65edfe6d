"""A campaign in a guest with emulated CPUs: an array with volumes, one off the stripe, as invented events."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from fsdyno.store import Store
from tests.report.scenes import DESCRIBE
from tests.store.fixtures import METRICS, leaf, phase_end, record, start, workload

MACHINE = {
    "kernel": "6.1.0-56-amd64",
    "accelerator": "tcg",
    "cpus": 2,
    "memory": 1 << 30,
    "qemu": "7.2.22",
    "boot": "b-1",
    "boot_seconds": 7.9,
    "fresh": True,
}

FILES = 4
"""Members of the array, each a file."""

# cell -> (aligned, what the superblock says, bytes read at the members per byte written)
VOLUMES: dict[str, tuple[bool | None, str, float]] = {
    "detect": (True, "stride 16, stripe width 48: the array's own", 0.0),
    "none": (False, "stride 0, stripe width 0: told to know nothing of the array", 0.0),
    "second volume": (False, "its first extent lies 128 KiB off the stripe", 1 / 3),
}


def machine(**facts: Any) -> dict[str, Any]:
    """The `built` event of a guest."""
    return {"event": "built", "part": "machine", "facts": MACHINE | facts}


def began(**facts: Any) -> list[dict[str, Any]]:
    """How a trial in a guest begins."""
    return [{"event": "trial_start", "wall_clock": 1.8e9, "place": "guest", "phases": 4}, machine(**facts)]


def file_system(**facts: Any) -> dict[str, Any]:
    """The `built` event of what mkfs made."""
    found = {"features": ["extent", "64bit"], "block_size": 4096, "uuid": "u", **facts}
    return {"event": "built", "part": "file_system", "facts": found}


def work(busy: float, wall: float = 2.0, read: float = 0.0, seed: int = 1) -> dict[str, Any]:
    """A `write` phase of 96 MiB in 500 records by two threads with 50 fsyncs; `busy` is the share of both
    CPUs that it used, `read` what the members read per byte."""
    size = 96 << 20
    return phase_end(
        2,
        "write",
        "workload",
        wall,
        workload=workload("stream", {"write": (500, size), "fsync": (50, 0)}, wall * 0.9, wall * 0.1, seed),
        leaves=[
            leaf(
                reads=100, read_bytes=int(read * size / FILES), writes=400, write_bytes=size // 3, flushes=26
            )
            for _ in range(FILES)
        ],
        host={"pages_dirtied": 9, "pages_written": 9, "steal": 0.0, "busy": busy * wall * 2},
    )


def alignment(path: Path, *, busy: float = 0.9, rounds: int = 6) -> str:
    """Fills a store with the volumes of an array; returns the campaign's id."""
    describe = DESCRIBE | {"metrics": METRICS, "filesystems": [{"name": "ext4", "flushes": True}]}
    stack = {"devices": [{"file": {"size": 2 << 30, "count": FILES}}], "array": {"level": 5}}
    cells = [
        {
            "index": i,
            "name": name,
            "label": {"volume": name},
            "spec": {"stack": stack, "filesystem": {"type": "ext4"}, "phases": []},
            "what": f"{i}" * 64,
        }
        for i, name in enumerate(VOLUMES)
    ]
    with Store.open(path, create=True) as store:
        campaign = start(
            store,
            list(VOLUMES),
            cells=cells,
            reference={"volume": "detect"},
            describe=describe,
            rounds=rounds,
            question="What does a volume off the stripe cost?",
        )
        for rnd in range(1, rounds + 1):
            for i, (name, (aligned, sentence, read)) in enumerate(VOLUMES.items()):
                rng = random.Random(f"{name} {rnd}")
                facts = {"aligned": aligned, "alignment": sentence}
                mkfs = phase_end(0, "mkfs", "mkfs", 0.5 * rng.lognormvariate(0, 0.05))
                mkfs["host"]["busy"] = mkfs["wall"] * 0.9
                events = [
                    *began(boot=f"b-{rnd}", fresh=i == 0),
                    {"event": "built", "part": "array", "facts": {"level": 5, "chunk": 65536}},
                    file_system(**facts),
                    mkfs,
                    work(busy, 2.0 * rng.lognormvariate(0, 0.05), read, rnd),
                    {"event": "end", "outcome": "ok", "flags": [], "wall": 4.0, "teardown": 0.1, "shell": []},
                ]
                record(store, campaign, i, rnd, events)
        store.finish(campaign, "complete")
        return campaign
