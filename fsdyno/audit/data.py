"""An audit for programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fsdyno.audit.evidence import Cost
from fsdyno.audit.rule import Rule
from fsdyno.audit.run import Audit
from fsdyno.audit.show import WORDS

VERSION = 1


def data(audit: Audit, costs: Callable[[Rule], Cost]) -> dict[str, Any]:
    """The audit; layers as recorded, findings in the order of their weight."""
    stack = audit.stack
    return {
        "fsdyno_audit": VERSION,
        "target": stack.target,
        "verdict": _verdict(audit),
        "host": stack.host["name"],
        "taken": stack.taken,
        "mount": stack.record.get("mount"),
        "filesystem": stack.record.get("filesystem"),
        "layers": stack.record["layers"],
        "findings": [
            {
                "rule": judged.rule.name,
                "severity": WORDS[judged.finding.severity],
                "about": judged.finding.about,
                "found": judged.finding.found,
                "expected": judged.finding.expected,
                "why": judged.finding.why,
                "command": judged.finding.command,
                "source": judged.rule.source,
                "cost": _cost(judged.cost(costs)),
            }
            for judged in audit.found
        ],
        "unseen": [
            {
                "what": unseen.what,
                "layer": unseen.layer,
                "message": unseen.message,
                "advice": unseen.advice,
                "rules": sorted({rule.name for rule, which in audit.blind if which is unseen}),
            }
            for unseen in stack.unseen
        ],
    }


def _verdict(audit: Audit) -> str:
    if audit.worst is None:
        return "ok" if audit.stack.layers else "unknown"
    return WORDS[audit.worst]


def _cost(cost: Cost) -> dict[str, Any]:
    return {**cost.data, **({"problem": cost.problem} if cost.problem else {})}
