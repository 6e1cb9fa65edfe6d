"""Small stacks made by hand for tests of rules: a mounted file system on some disks, and what is changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fsdyno.audit.rule import Finding, Rule
from fsdyno.audit.stack import Stack, read

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
DAY, YEAR = 86_400, 365 * 86_400
TAKEN = 1_800_000_000
BACK, THROUGH = "write back", "write through"
OPTIONS = ["rw", "relatime"]


def layer(name: str, kind: str = "disk", on: Iterable[str] = (), **more: Any) -> dict[str, Any]:
    """A layer; facts by `facts`, anything else is an attribute of its queue."""
    facts, chunk = more.pop("facts", {}), more.pop("chunk", None)
    queue = {"write_cache": BACK, "rotational": 0, "scheduler": "none", "discard_max_bytes": 0, **more}
    piece = {"start": 0, "size": GIB, "offset": MIB} | ({"chunk": chunk} if chunk else {})
    return {
        "name": name,
        "node": f"/dev/{name}",
        "kind": kind,
        "size": GIB,
        "queue": queue,
        "facts": facts,
        "below": [{**piece, "on": lower} for lower in on],
    }


def array(level: str = "raid6", members: int = 4, **facts: Any) -> list[dict[str, Any]]:
    """An array at rest on disks `sda`, `sdb`, …"""
    disks = [f"sd{chr(ord('a') + n)}" for n in range(members)]
    told = {"level": level, "members": members, "degraded": 0, "sync_action": "idle", **facts}
    return [layer("md0", "md", disks, facts=told), *(layer(disk) for disk in disks)]


def stack(
    layers: list[dict[str, Any]],
    *,
    options: Iterable[str] = OPTIONS,
    mounted: bool = True,
    point: str = "/mnt/a b",
    bdi: str = "8:0",
    old: bool = False,
    read_ahead: int = 128 * KIB,
    stripe: int = 0,
    timers: Iterable[tuple[str, str]] = (),
    unseen: Iterable[str] = (),
    **filesystem: Any,
) -> Stack:
    """A mounted stack; `filesystem` as the record has it; `old`: as agents of before recorded stripes."""
    mount = {"point": point, "source": "x", "fstype": "somefs", "options": list(options), "bdi": bdi}
    striped = {"on": "md0", "chunk": stripe, "data_disks": 1, "stripe": stripe, "pieces": [], "steps": []}
    striped |= {} if old else {"read_ahead": 2 * stripe}
    return read(
        {
            "target": point if mounted else layers[0]["node"],
            "taken": TAKEN,
            "host": {},
            "mount": {**mount, "read_ahead": read_ahead} if mounted else None,
            "filesystem": {"type": "somefs", "known": True, "on": [], "upkeep": {}, **filesystem},
            "layers": layers,
            "striped": [striped] if stripe else [],
            "timers": [{"name": name, "from": file} for name, file in timers],
            "unseen": [{"what": what, "reason": {"message": "no"}} for what in unseen],
        }
    )


def found(rule: Rule, *of: Any, **told: Any) -> list[Finding]:
    return list(rule.judge(stack(*of, **told)))


def one(rule: Rule, *of: Any, **told: Any) -> Finding:
    findings = found(rule, *of, **told)
    assert len(findings) == 1, findings
    return findings[0]


SSD = layer("sda", discard_max_bytes=2 * GIB)
TRIM = ("fstrim.timer", "/etc/systemd/system/timers.target.wants/fstrim.timer")
