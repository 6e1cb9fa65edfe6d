"""A record made by hand, whole and without a fault, and what tests change of it: the second volume of a group
on RAID 5 of four partitions. Numbers are those that the agent gives such a stack."""

from __future__ import annotations

import copy
from typing import Any

from fsdyno.audit import Audit, audit, read
from fsdyno.audit.evidence import UNMEASURED, Cost
from fsdyno.audit.rule import Finding, Rule

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
CHUNK, STRIPE = 64 * KIB, 192 * KIB
START = 6 * STRIPE  # of LVM's data
TAKEN = 1_790_000_000

Record = dict[str, Any]


def queue(**more: Any) -> Record:
    """Attributes of a disk's queue."""
    return {
        "alignment_offset": 0,
        "discard_granularity": 0,
        "discard_max_bytes": 0,
        "logical_block_size": 512,
        "physical_block_size": 4096,
        "minimum_io_size": 4096,
        "optimal_io_size": 0,
        "read_ahead_kb": 128,
        "rotational": 1,
        "scheduler": "mq-deadline",
        "schedulers": ["none", "mq-deadline"],
        "write_cache": "write back",
        **more,
    }


def layer(name: str, kind: str, below: list[Record], **facts: Any) -> Record:
    return {
        "name": name,
        "node": f"/dev/{name}",
        "kind": kind,
        "size": 3 * GIB,
        "queue": queue(),
        "facts": facts,
        "below": below,
    }


def piece(on: str, offset: int, *, start: int = 0, size: int = 3 * GIB, chunk: int | None = None) -> Record:
    return {"start": start, "size": size, "on": on, "offset": offset} | ({"chunk": chunk} if chunk else {})


def record() -> Record:
    """The whole of it: nothing is found in it but what the tests put there."""
    disks = ("sda", "sdb", "sdc", "sdd")
    members = [piece(f"{disk}1", MIB, chunk=CHUNK) for disk in disks]
    slots = [
        {"device": f"{disk}1", "slot": n, "state": "in_sync", "data_offset": MIB}
        for n, disk in enumerate(disks)
    ]
    md = {"level": "raid5", "members": 4, "chunk": CHUNK, "degraded": 0, "sync_action": "idle"}
    md |= {"array_state": "clean", "layout": "left-symmetric", "data_disks": 3, "slots": slots}
    md |= {"bitmap": "+8", "pv_start": START, "pv_group": "vg", "extent": 6 * MIB}
    volume_at = START + 2 * 6 * MIB
    return copy.deepcopy(
        {
            "fsdyno_record": 1,
            "taken": TAKEN,
            "target": "/srv",
            "host": {
                "name": "nas",
                "kernel": "6.1.0",
                "machine": "x86_64",
                "distribution": "Debian GNU/Linux 12",
                "boot": "00000000-0000-0000-0000-000000000000",
                "cpu": "a CPU",
                "cpus": 4,
                "memory": 8 * GIB,
                "root": True,
            },
            "mount": {
                "point": "/srv",
                "source": "/dev/mapper/vg-two",
                "fstype": "ext4",
                "options": ["rw", "relatime", "stripe=48"],
                "bdi": "253:1",
                "read_ahead": 2 * STRIPE,
            },
            "filesystem": {
                "type": "ext4",
                "known": True,
                "on": ["dm-1"],
                "superblock": {"block_size": 4096},
                "upkeep": {"journal": 64 * MIB, "journal_usual": 64 * MIB, "smallest_write": 4096},
                "barriers": {"on": True},
                "geometry": {
                    "found": {"stride": 16, "stripe_width": 48},
                    "expected": {"stride": 16, "stripe_width": 48},
                },
                "commands": {"check": "umount /srv && e2fsck -f /dev/mapper/vg-two"},
            },
            "layers": [
                layer("dm-1", "lvm", [piece("md0", volume_at)], group="vg", volume="two")
                | {"node": "/dev/mapper/vg-two"},
                layer("md0", "md", members, **md)
                | {"queue": queue(optimal_io_size=STRIPE, read_ahead_kb=384)},
                layer("sdd1", "partition", [piece("sdd", MIB)], number=1),
                layer("sdd", "disk", [], model="DISK", driver="scsi"),
                *(
                    found
                    for disk in disks[:3]
                    for found in (
                        layer(f"{disk}1", "partition", [piece(disk, MIB)], number=1),
                        layer(disk, "disk", [], model="DISK", driver="scsi"),
                    )
                ),
            ],
            "striped": [
                {
                    "on": "md0",
                    "chunk": CHUNK,
                    "data_disks": 3,
                    "stripe": STRIPE,
                    "read_ahead": 2 * STRIPE,
                    "pieces": [{"start": 0, "size": 3 * GIB, "offset": volume_at, "off": 0, "off_chunk": 0}],
                    "steps": [
                        {"layer": "dm-1", "off": 0, "pv": False},
                        {"layer": "md0", "off": 0, "pv": True},
                    ],
                }
            ],
        }
    )


def off(made: Record, **steps: int) -> Record:
    """The same, `md0` (of LVM's data) or `dm_1` bytes behind the start of a stripe by its own start."""
    [striped] = made["striped"]
    for step in striped["steps"]:
        step["off"] = steps.get(step["layer"].replace("-", "_"), 0)
    total = sum(steps.values())
    striped["pieces"][0] |= {"off": total % STRIPE, "off_chunk": total % CHUNK}
    return made


def named(made: Record, name: str) -> Record:
    """A layer of it."""
    return next(found for found in made["layers"] if found["name"] == name)


def judged(made: Record) -> Audit:
    return audit(read(made))


def found(rule: Rule, made: Record) -> list[Finding]:
    return list(rule.judge(read(made)))


def no_costs(rule: Rule) -> Cost:
    """A store that measured nothing."""
    return UNMEASURED
