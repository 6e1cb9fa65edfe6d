"""A store as the quickstart plan would fill it, with invented and seeded numbers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from fsdyno.store import Store
from tests.store.fixtures import METRICS, artefact, leaf, phase_end, record, start, workload

# name -> (driver, speed); tmpfs has no device
SYSTEMS = {
    "ext2": ("ext4", 1.05),
    "ext3": ("ext4", 0.9),
    "ext4": ("ext4", 1.0),
    "xfs": ("xfs", 1.31),
    "btrfs": ("btrfs", 0.72),
    "tmpfs": ("tmpfs", 6.0),
}

# phase -> (kind, load, op, operations, bytes, seconds at speed 1)
PHASES: dict[str, tuple[str, str | None, str, int, int, float]] = {
    "mkfs": ("mkfs", None, "", 0, 0, 0.06),
    "mount": ("mount", None, "", 0, 0, 0.004),
    "create": ("workload", "tree", "create", 20_000, 20_000 * 4096, 1.4),
    "remount": ("remount", None, "", 0, 0, 0.03),
    "read": ("workload", "tree", "read", 20_000, 20_000 * 4096, 0.9),
    "delete": ("workload", "tree", "delete", 20_000, 0, 0.5),
    "write": ("workload", "stream", "write", 2048, 256 << 20, 0.8),
    "scan": ("workload", "stream", "read", 2048, 256 << 20, 0.4),
    "random": ("workload", "random", "read", 15_000, 15_000 * 4096, 1.0),
    "unmount": ("unmount", None, "", 0, 0, 0.02),
    "check": ("check", None, "", 0, 0, 0.15),
}

DESCRIBE: dict[str, Any] = {
    "protocol": 1,
    "engine": 1,
    "filesystems": [{"name": name, "needs_device": name != "tmpfs"} for name in SYSTEMS],
    "metrics": METRICS,
}


def trial_events(
    name: str, rnd: int, *, points: list[dict[str, Any] | None] | None = None
) -> list[dict[str, Any]]:
    """The events of one trial of `name`; the load phases once per point."""
    driver, speed = SYSTEMS[name]
    rng = random.Random(f"{name} {rnd}")
    mood = random.Random(rnd).gauss(1, 0.04)
    events: list[dict[str, Any]] = [
        {"event": "trial_start", "wall_clock": 1.8e9, "place": "native", "phases": 11}
    ]
    index, stdout = 0, artefact("mkfs stdout", f"mkfs for {name}\n".encode())
    for phase, (kind, load, op, count, size, seconds) in PHASES.items():
        for point in (points or [None]) if load else [None]:
            gain = 1.0
            if point:
                threads = next(iter(point.values()))
                gain = threads / (1 + 0.08 * (threads - 1))
            wall = seconds / speed / gain / mood * rng.lognormvariate(0, 0.03)
            more: dict[str, Any] = {"point": point}
            if load:
                sync = 0.2 * wall if op in ("create", "delete", "write") else 0.0
                more["workload"] = workload(
                    load, {op: (count, size)}, wall - sync, sync, rng.randrange(10**9)
                )
            if name == "tmpfs":
                more["leaves"] = []
                if phase in ("mkfs", "check"):
                    more |= {"outcome": "not_applicable", "reason": {"message": "no device, nothing to do"}}
            elif load:
                more["leaves"] = [
                    leaf(writes=size >> 17, write_bytes=size, flushes=2, busy_ms=int(wall * 900))
                ]
            if kind in ("mount", "remount"):
                more["facts"] = {"driver": driver, "mount_options": "rw,relatime", "read_ahead": 131072}
            if kind in ("mkfs", "check") and name != "tmpfs":
                tool = f"/usr/sbin/{'mkfs' if kind == 'mkfs' else 'fsck'}.{name}"
                more["tools"] = [
                    {
                        "argv": [tool, "-F", "/dev/loop0"],
                        "version": f"{tool} 1.47",
                        "exit": 0,
                        "meaning": "ok",
                        "wall": wall * 0.9,
                        "cpu": {
                            "user": 0.01,
                            "system": 0.02,
                            "voluntary_switches": 1,
                            "involuntary_switches": 0,
                        },
                        "peak_memory": 8 << 20,
                        "stdout": stdout[0]["sha256"],
                        "stderr": stdout[0]["sha256"],
                    }
                ]
            if name == "btrfs" and rnd == 2 and phase == "create":
                more["flags"] = [
                    {"doubt": "stolen_time", "reason": "8 % of the CPU time was stolen, limit 5 %"}
                ]
                more["kernel_log"] = ["<4>btrfs: something to look at"]
            events.append(phase_end(index, phase, kind, wall, **more))
            index += 1
    shell = [
        {"phase": "mkfs", "command": f"mkfs.{name} $DEV"},
        {"phase": "mount", "command": "time { mount $DEV $MNT; }"},
    ]
    end = {"event": "end", "outcome": "ok", "flags": [], "wall": 8.0, "teardown": 0.02, "shell": shell}
    return [*events, *stdout, end]


def quickstart(path: Path, rounds: int = 6, points: list[dict[str, Any] | None] | None = None) -> str:
    """Fills a store; returns the campaign's id. One cell is unsupported, one trial failed."""
    names = [*SYSTEMS, "jfs"]
    with Store.open(path, create=True) as store:
        labels = [{"threads": f"{next(iter(p.values()))}"} for p in points or [] if p]
        campaign = start(
            store,
            names,
            reference={"filesystem": "ext4"},
            describe=DESCRIBE,
            rounds=rounds,
            points=labels,
            phases=[{"name": "create", "point": p} for p in points or [] if p],
        )
        reason = {"message": "the kernel has no driver for it", "advice": "run it in a guest"}
        store.exclude_cell(campaign, len(SYSTEMS), "unsupported", reason)
        for rnd in range(1, rounds + 1):
            for cell, name in enumerate(SYSTEMS):
                record(store, campaign, cell, rnd, trial_events(name, rnd, points=points))
        store.finish(campaign, "complete")
        return campaign
