"""*Where* a result was measured: what must be equal for two results to be compared unasked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fsdyno.campaign.abilities import LAYERS, in_directory
from fsdyno.plan import Plan
from fsdyno.plan.model import GUEST


def where(plan: Plan, place: str, survey: dict[str, Any], hello: dict[str, Any]) -> dict[str, Any]:
    """The fields of *where*. Only tools that the plan's own file systems and layers use count, so that an
    update of another one spoils nothing."""
    host = survey["host"]
    wanted = {(cell.spec.get("filesystem") or {}).get("type") for cell in plan.cells}
    wanted |= {layer for cell in plan.cells for layer in LAYERS if cell.spec["stack"].get(layer) is not None}
    parts = [*survey["filesystems"], *survey.get("layers", ())]
    used = {tool for part in parts if part["name"] in wanted for tool in part["tools"]}
    if place == GUEST:
        used.add(f"qemu-system-{host['machine']}")
    tools = survey["tools"]
    found = {
        "rig": host["name"],
        "kernel": host["kernel"],
        "machine": host["machine"],
        "cpu": host["cpu"],
        "cpus": host["cpus"],
        "hypervisor": host.get("hypervisor"),
        "place": place,
        "agent": hello["version"],
        "engine": hello["engine"],
        "tools": {name: tools[name].get("version") for name in sorted(used & tools.keys())},
    }
    if place == GUEST:
        found["guest"] = _guest(plan, survey)
    folders = _folders(plan)
    if None in folders:
        found["work_filesystem"] = survey["folders"]["filesystem"]
    if named := sorted(folder for folder in folders if folder):
        found["folder_filesystems"] = {folder: filesystem_of(folder) for folder in named}
    return found


def _folders(plan: Plan) -> set[str | None]:
    """The folders that hold what is measured; None is the agent's work folder."""
    found: set[str | None] = set()
    for cell in plan.cells:
        stack = cell.spec.get("stack") or {}
        if in_directory(cell):
            found.add(str(stack["directory"]))
        else:
            # A stack without a file (a real device, none at all) is mounted in the work folder.
            found |= {(device.get("file") or {}).get("folder") for device in stack.get("devices") or [{}]}
    return found


def filesystem_of(folder: str, mounts: str | None = None) -> str | None:
    """The type of the file system that holds a folder: of the longest mount point that it lies below, and
    of the last mounted where several lie on one another.

    `mounts` is the text of /proc/self/mountinfo, see proc_pid_mountinfo(5): field 5 is the mount point,
    with blanks as octal, and the type is the first field after the `-`.
    """
    try:
        text = Path("/proc/self/mountinfo").read_text(errors="surrogateescape") if mounts is None else mounts
    except OSError:
        return None
    path = Path(folder).resolve()
    best, kind = -1, None
    for line in text.splitlines():
        fields, _, source = line.partition(" - ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields.split()[4]))
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), source.split()[0]
    return kind


def _guest(plan: Plan, survey: dict[str, Any]) -> dict[str, Any]:
    """Release -> source of the kernels that the plan's guests boot. CPUs and memory are the plan's own."""
    kernels = {kernel["release"]: kernel["source"] for kernel in survey.get("kernels", ())}
    newest = next(iter(kernels), None)
    machines = [cell.spec["machine"] for cell in plan.cells if "machine" in cell.spec]
    booted = {machine.get("kernel", newest) for machine in machines}
    return {release: kernels[release] for release in sorted(booted & kernels.keys())}


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
