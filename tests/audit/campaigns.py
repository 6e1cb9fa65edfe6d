"""Invented campaigns for the tests of evidence: cells by the settings that differ, numbers by round."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fsdyno.audit.evidence import Evidence
from fsdyno.audit.rule import Rule
from fsdyno.audit.stack import Stack, read
from fsdyno.store import Store
from tests.store.fixtures import METRICS, leaf, phase_end, record, start, workload

KIB, MIB = 1 << 10, 1 << 20
MEMBERS = 4
WRITTEN = 64 * MIB
FSYNCS = 100
_GUEST = {"kernel": "6.1.0-56-amd64", "accelerator": "tcg", "cpus": 2, "memory": 1 << 30, "boot": "b"}
_LOADS = {
    "write": ("stream", "rewrite", "write"),
    "read": ("stream", "read", "read"),
    "create": ("tree", "create", "create"),
}


@dataclass
class Cell:
    """A cell of a campaign: paths of its spec, and what each round's trial says and counts."""

    name: str
    spec: dict[str, Any]
    aligned: bool | Sequence[bool | None] | None = None
    barriers: str | None = None
    reads: list[float] = field(default_factory=list)  # bytes read at the members per byte written
    rates: list[float] = field(default_factory=list)  # operations per second
    load: str = ""  # write if there are reads, else create
    place: str = "native"
    busy: float = 0.1  # share of both CPUs

    @property
    def rounds(self) -> int:
        return max(len(self.reads), len(self.rates))


def campaign(
    path: Path,
    cells: list[Cell],
    *,
    started: float | None = None,
    outcome: str = "ok",
    doubted: int = 0,
    rig: str = "bench",
    metrics: list[str] | None = None,
    **more: Any,
) -> str:
    """Adds a campaign to a store; returns its id."""
    known = [metric for metric in METRICS if metrics is None or metric["name"] in metrics]
    with Store.open(path, create=True) as store:
        begun = start(
            store,
            [cell.name for cell in cells],
            cells=[_cell(index, cell) for index, cell in enumerate(cells)],
            reference={"cell": cells[0].name},
            describe={"protocol": 1, "engine": 1, "metrics": known},
            where={"rig": rig, "kernel": "6.18.0", "cpus": 2, "engine": 1, "place": "native"},
            **more,
        )
        for number in range(max(cell.rounds for cell in cells)):
            for index, cell in enumerate(cells):
                if number < cell.rounds:
                    flags = (
                        [{"doubt": "stolen_time", "reason": "8 %"}] if index == 0 and number < doubted else []
                    )
                    record(
                        store, begun, index, number + 1, _events(cell, number), outcome=outcome, flags=flags
                    )
        store.finish(begun, "complete")
        if started is not None:
            with store._transaction() as db:
                db.execute("UPDATE campaign SET started = ? WHERE id = ?", (started, begun))
    return begun


def rule(evidence: Evidence | None) -> Rule:
    """A rule that finds nothing, with this evidence."""
    return Rule("a-rule", "", "", (), lambda stack: (), (), evidence)


def stack(
    kind: str = "ext4",
    md: str = "raid5",
    off: int = 128 * KIB,
    read_ahead: int = 128 * KIB,
    superblock: dict[str, Any] | None = None,
) -> Stack:
    """The stack that is audited: its type of file system, the level of its array, how far it is off the
    stripe, its read-ahead, what its superblock says."""
    array = {
        "name": "md0", "node": "/dev/md0", "kind": "md", "size": 1 << 40, "queue": {}, "facts": {"level": md},
        "below": [],
    }  # fmt: skip
    mount = {
        "point": "/srv", "source": "/dev/md0", "fstype": kind, "options": [], "bdi": "9:0",
        "read_ahead": read_ahead,
    }  # fmt: skip
    striped = {
        "on": "md0", "chunk": 64 * KIB, "data_disks": 3, "stripe": 192 * KIB, "steps": [],
        "pieces": [{"start": 0, "size": 1 << 40, "offset": off, "off": off}],
    }  # fmt: skip
    filesystem = {"type": kind, "known": True, "on": [], "upkeep": {}}
    filesystem |= {"superblock": superblock or {"journal_size": 4 * MIB}}
    return read(
        {
            "target": "/srv", "taken": 0, "host": {}, "mount": mount, "filesystem": filesystem,
            "layers": [array], "striped": [striped],
        }
    )  # fmt: skip


def _load(cell: Cell) -> tuple[str, str, str]:
    return _LOADS[cell.load or ("write" if cell.reads else "create")]


def _cell(index: int, cell: Cell) -> dict[str, Any]:
    load, op, _ = _load(cell)
    devices = [{"file": {"size": 1 << 30, "count": MEMBERS if cell.reads else 1}}]
    spec: dict[str, Any] = {
        "stack": {"devices": devices},
        "filesystem": {"type": "ext4"},
        "phases": [{"mkfs": {}}, {"name": "load", "workload": {load: {"op": op, "dataset": "large"}}}],
    }
    for dotted, value in cell.spec.items():
        *tables, key = dotted.split(".")
        place = spec
        for table in tables:
            place = place.setdefault(table, {})
        place[key] = value
    what = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()
    return {"index": index, "name": cell.name, "label": {"cell": cell.name}, "spec": spec, "what": what}


def _events(cell: Cell, number: int) -> list[dict[str, Any]]:
    load, _, op = _load(cell)
    events: list[dict[str, Any]] = [
        {"event": "trial_start", "wall_clock": 1.8e9, "place": cell.place, "phases": 2}
    ]
    if cell.place == "guest":
        events.append({"event": "built", "part": "machine", "facts": _GUEST})
    aligned = cell.aligned[number] if isinstance(cell.aligned, Sequence) else cell.aligned
    if aligned is not None:
        events.append({"event": "built", "part": "file_system", "facts": {"aligned": aligned}})
    if cell.barriers:
        events.append({"event": "built", "part": "mount", "facts": {"barriers": cell.barriers}})
    count = 1000
    wall = count / cell.rates[number] if cell.rates else 2.0
    read = cell.reads[number] if cell.reads else 0.0
    devices = MEMBERS if cell.reads else 1
    counts = leaf(
        reads=100,
        read_bytes=int(read * WRITTEN / devices),
        writes=400,
        write_bytes=WRITTEN // devices,
        flushes=2 * FSYNCS if cell.barriers == "on" else 0,
    )
    work = workload(load, {op: (count, WRITTEN), "fsync": (FSYNCS, 0)}, wall, 0.0, number)
    host = {"pages_dirtied": 9, "pages_written": 9, "steal": 0.0, "busy": cell.busy * wall * 2}
    return [
        *events,
        phase_end(0, "mkfs", "mkfs", 0.5),
        phase_end(1, "load", "workload", wall, workload=work, leaves=[counts] * devices, host=host),
        {"event": "end", "outcome": "ok", "flags": [], "wall": 4.0, "teardown": 0.1, "shell": []},
    ]
