"""*Where* a result was measured: what must be equal for two results to be compared unasked."""

from __future__ import annotations

from typing import Any

from fsdyno.campaign.abilities import AUTO, DIRECTORY, in_directory
from fsdyno.plan import Plan

NATIVE = "native"


def where(plan: Plan, survey: dict[str, Any], hello: dict[str, Any]) -> dict[str, Any]:
    """The fields of *where*. Only tools that the plan's own file systems use count, so that an
    update of another one spoils nothing."""
    host = survey["host"]
    wanted = {(cell.spec.get("filesystem") or {}).get("type") for cell in plan.cells}
    used = {tool for fs in survey["filesystems"] if fs["name"] in wanted for tool in fs["tools"]}
    tools = survey["tools"]
    return {
        "rig": host["name"],
        "kernel": host["kernel"],
        "machine": host["machine"],
        "cpu": host["cpu"],
        "cpus": host["cpus"],
        "hypervisor": host.get("hypervisor"),
        "place": _places(plan),
        "work_filesystem": survey["folders"]["filesystem"],
        "agent": hello["version"],
        "engine": hello["engine"],
        "tools": {name: tools[name].get("version") for name in sorted(used & tools.keys())},
    }


def _places(plan: Plan) -> str:
    """Where the trials run, as far as the plan decides it."""
    if all(in_directory(cell) for cell in plan.cells):
        return DIRECTORY
    return NATIVE if plan.place == AUTO else plan.place


def differences(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[str]:
    """Each field that differs, as `kernel: 6.1 -> 6.2`."""
    found = []
    for key in sorted(old.keys() | new.keys()):
        a, b = old.get(key), new.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key}: {a} -> {b}")
    return found
