"""Which cells this rig cannot run, and why: read from the survey before the first round.

By data only: what a file system needs is in the survey, so nothing here knows one by name.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fsdyno.errors import Exit, UserError
from fsdyno.plan import Cell, Plan
from fsdyno.units import show_bytes

Survey = dict[str, Any]
Reason = dict[str, str]

AUTO = "auto"
DIRECTORY = "directory"


def unsupported(plan: Plan, survey: Survey) -> dict[int, Reason]:
    """Cell index -> why it cannot run here. Raises `UserError` if none can."""
    reasons = {cell.index: why for cell in plan.cells if (why := _why_not(plan, cell, survey))}
    if len(reasons) == len(plan.cells):
        raise _nothing_to_run(plan, reasons)
    return reasons


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


def _why_not(plan: Plan, cell: Cell, survey: Survey) -> Reason | None:
    if in_directory(cell):
        return _unable(survey["places"].get(DIRECTORY), "this agent does not work in directories")
    wanted = (cell.spec.get("filesystem") or {}).get("type")
    found = next((fs for fs in survey["filesystems"] if fs["name"] == wanted), None)
    if found is None:
        return {"message": f"this agent knows no file system {wanted!r}"}
    places = found["places"] if plan.place == AUTO else {plan.place: found["places"].get(plan.place)}
    reasons = []
    for place, ability in places.items():
        if place == DIRECTORY:
            continue
        no = f"{wanted} does not run in place {place!r}"
        why = _unable(ability, no) or _unable(survey["places"].get(place), no)
        if why is None:
            return _missing_tool(cell, found["tools"], survey["tools"])
        reasons.append(why)
    return reasons[0] if reasons else {"message": f"{wanted} runs nowhere on this machine"}


def _unable(ability: dict[str, Any] | None, otherwise: str) -> Reason | None:
    """Why not, or None if able; `otherwise` where the survey says nothing at all."""
    if ability is None:
        return {"message": otherwise}
    return None if ability["able"] else ability.get("reason") or {"message": otherwise}


def _missing_tool(cell: Cell, needed: dict[str, str], tools: dict[str, Any]) -> Reason | None:
    """The first tool that a phase of the cell needs and that is not there."""
    kinds = {kind for phase in cell.spec["phases"] for kind, given in phase.items() if given is not None}
    for name, purpose in needed.items():
        tool = tools.get(name)
        if purpose in kinds and tool is not None and not tool.get("path"):
            return {
                "message": f"{name} is missing, which the phase `{purpose}` needs",
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
