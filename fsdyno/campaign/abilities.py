"""Which cells this rig cannot run, and why: read from the survey before the first round.

By data only: what a file system needs is in the survey, so nothing here knows one by name.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fsdyno.errors import Exit, UserError
from fsdyno.plan import Cell, Plan
from fsdyno.plan.model import GUEST
from fsdyno.units import show_bytes

Survey = dict[str, Any]
Reason = dict[str, str]

DIRECTORY = "directory"
LAYERS = ("array", "lvm")
"""Keys of `stack` that are layers of their own in the survey."""


def unsupported(plan: Plan, place: str, survey: Survey) -> dict[int, Reason]:
    """Cell index -> why it cannot run in this place. Cells in a directory run on the machine itself."""
    return {cell.index: why for cell in plan.cells if (why := _why_not(cell, place, survey))}


def assert_some(plan: Plan, left_out: dict[int, Reason]) -> None:
    """Raises `UserError` if no cell remains."""
    if len(left_out) == len(plan.cells):
        raise _nothing_to_run(plan, left_out)


def anywhere(cell: Cell, survey: Survey) -> Reason | None:
    """Why a cell runs in no place, whatever kernel it has: a tool is missing, or its name is unknown."""
    if in_directory(cell):
        return None
    parts = _parts(cell, survey)
    if isinstance(parts, dict):
        return parts
    return next((why for part in parts if (why := _missing_tool(cell, part, survey["tools"]))), None)


def check_space(plan: Plan, left_out: dict[int, Reason], survey: Survey) -> None:
    """Raises `UserError` if the plan's files do not fit where they go: the agent's work folder, the
    folders that devices name, and directories, each with what it needs itself."""
    folders = survey["folders"]
    measured = [cell for cell in plan.cells if cell.index not in left_out]
    if folders.get("problem") and not all(in_directory(cell) for cell in measured):
        problem = folders["problem"]
        raise UserError(
            problem["message"], code=Exit.CANNOT, where=folders["work"], advice=problem.get("advice")
        )
    # Folders of one file system share its free space.
    named: dict[str, dict[str, None]] = {}
    free: dict[str, int] = {}

    def place_of(folder: str | None) -> str:
        path = folder or folders["work"]
        place, room = _place(path, made=folder is None)
        if folder is None:
            room = int(folders["free"])  # as the agent sees it, with the rights that it has
        named.setdefault(place, {})[path] = None
        free[place] = min(free.get(place, room), room)
        return place

    for place, needed in plan.space_by(place_of, left_out).items():
        if needed > free[place]:
            raise UserError(
                f"the plan needs {show_bytes(needed)}, but only {show_bytes(free[place])} are free",
                code=Exit.CANNOT,
                where=", ".join(named[place]),
                advice="make the devices or datasets of the plan smaller, free some space, "
                "or name another folder: --work DIR, `folder` of a device, stack.directory",
            )


def sentence(reason: Reason | None) -> str:
    """A reason in one line."""
    if not reason:
        return "no reason given"
    advice = reason.get("advice")
    return f"{reason['message']} ({advice})" if advice else reason["message"]


def in_directory(cell: Cell) -> bool:
    """Whether a cell works in an existing directory, for which no stack is built."""
    return bool((cell.spec.get("stack") or {}).get("directory"))


def _why_not(cell: Cell, place: str, survey: Survey) -> Reason | None:
    if in_directory(cell):
        return _unable(survey["places"].get(DIRECTORY), "this agent does not work in directories")
    parts = _parts(cell, survey)
    if isinstance(parts, dict):
        return parts
    if why := anywhere(cell, survey):  # before the places: it is the easiest to mend
        return why
    if place == GUEST:
        return _why_no_guest(cell, parts, survey)
    for part in parts:
        no = f"{part['name']} does not run in place {place!r}"
        why = _unable(part["places"].get(place), no) or _unable(survey["places"].get(place), no)
        if why is not None:
            return why
    return None


def _why_no_guest(cell: Cell, parts: list[dict[str, Any]], survey: Survey) -> Reason | None:
    """By the kernel that the cell names, else by the newest."""
    why = _unable(survey["places"].get(GUEST), "this agent boots no guests") or _no_guest(cell, survey)
    if why is not None:
        return why
    for part in parts:
        of_part = _in_guest(part, cell, survey)
        if why := _unable(of_part, f"{part['name']} does not run in a guest"):
            return _advised(why, part, survey)
    return None


def kernel_of(cell: Cell, survey: Survey) -> str | None:
    """Release of the kernel that a guest boots for this cell: the one that it names, else the newest."""
    named = (cell.spec.get("machine") or {}).get("kernel")
    return named or next((kernel["release"] for kernel in survey.get("kernels", ())), None)


def _in_guest(part: dict[str, Any], cell: Cell, survey: Survey) -> dict[str, Any] | None:
    """What guests can do with a file system or a layer, with the kernel of this cell."""
    release = kernel_of(cell, survey)
    for kernel in survey.get("kernels", ()):
        if kernel["release"] == release and (found := _of_kernel(kernel, part)):
            return found
    of_newest: dict[str, Any] | None = part["places"].get(GUEST)
    return of_newest


def _of_kernel(kernel: dict[str, Any], part: dict[str, Any]) -> dict[str, Any] | None:
    found: dict[str, Any] | None
    found = kernel.get("layers" if part["name"] in LAYERS else "filesystems", {}).get(part["name"])
    return found


def _advised(why: Reason, part: dict[str, Any], survey: Survey) -> Reason:
    """The reason with the kernel to name, where another one of the cache would do."""
    for kernel in survey.get("kernels", ()):
        ability = _of_kernel(kernel, part)
        if ability is not None and ability["able"]:
            return why | {"advice": f'name machine.kernel = "{kernel["release"]}", which has {part["name"]}'}
    return why


def _parts(cell: Cell, survey: Survey) -> list[dict[str, Any]] | Reason:
    """What the survey says of the file system of a cell and of each layer under it; or what it does not
    know."""
    wanted = (cell.spec.get("filesystem") or {}).get("type")
    found = [fs for fs in survey["filesystems"] if fs["name"] == wanted]
    if not found:
        return {"message": f"this agent knows no file system {wanted!r}"}
    layers = {layer["name"]: layer for layer in survey.get("layers", ())}
    for name in LAYERS:
        if cell.spec["stack"].get(name) is None:
            continue
        if name not in layers:
            return {"message": f"this agent builds no stack.{name}"}
        found.append(layers[name])
    return found


def _no_guest(cell: Cell, survey: Survey) -> Reason | None:
    """What of a cell no guest on this machine has."""
    if any("disk" in device for device in cell.spec["stack"].get("devices", ())):
        return {
            "message": "a guest gets no real disk, only files",
            "advice": "measure it natively, or use { file = { size = … } }",
        }
    wanted = (cell.spec.get("machine") or {}).get("kernel")
    releases = [kernel["release"] for kernel in survey.get("kernels", ())]
    if wanted is not None and wanted not in releases:
        return {
            "message": f"no kernel {wanted!r} for guests is here, only {', '.join(releases) or 'none'}",
            "advice": "`fsdyno guest setup` unpacks kernels; leave machine.kernel out for the newest",
        }
    return None


def _unable(ability: dict[str, Any] | None, otherwise: str) -> Reason | None:
    """Why not, or None if able; `otherwise` where the survey says nothing at all."""
    if ability is None:
        return {"message": otherwise}
    return None if ability["able"] else ability.get("reason") or {"message": otherwise}


def _missing_tool(cell: Cell, part: dict[str, Any], tools: dict[str, Any]) -> Reason | None:
    """The first tool that a phase of the cell, or its stack, needs and that is not there."""
    kinds = {kind for phase in cell.spec["phases"] for kind, given in phase.items() if given is not None}
    layer = part["name"] in LAYERS
    for name, purpose in part["tools"].items():
        tool = tools.get(name)
        if (layer or purpose in kinds) and tool is not None and not tool.get("path"):
            what = f"stack.{part['name']} needs" if layer else f"the phase `{purpose}` needs"
            return {
                "message": f"{name} is missing, which {what}",
                "advice": f"install the package {tool['package']}",
            }
    return None


def _nothing_to_run(plan: Plan, reasons: dict[int, Reason]) -> UserError:
    texts = {sentence(reason) for reason in reasons.values()}
    if len(texts) == 1:
        reason = next(iter(reasons.values()))
        return UserError(reason["message"], code=Exit.CANNOT, advice=reason.get("advice"))
    names = {cell.index: cell.name for cell in plan.cells}
    lines = [f"{names[index]}: {sentence(reason)}" for index, reason in reasons.items()]
    return UserError(
        "this machine can measure no cell of the plan", code=Exit.CANNOT, advice="\n  ".join(lines)
    )


def _place(folder: str, made: bool) -> tuple[str, int]:
    """The file system of a folder, and its free bytes; no block device is opened for it.

    Of a folder that is closed to us (the agent may be root), or that the agent will make (`made`), it is
    the nearest parent's.
    """
    path = Path(folder).absolute()
    for there in (path, *path.parents):
        try:
            found = os.statvfs(there)
            return str(there.stat().st_dev), found.f_bavail * found.f_frsize
        except OSError as error:
            if isinstance(error, PermissionError) or (made and isinstance(error, FileNotFoundError)):
                continue
            raise UserError(
                error.strerror or str(error),
                code=Exit.CANNOT,
                where=folder,
                advice="name a folder that exists",
            ) from None
    raise AssertionError("the root folder is open to everybody")
