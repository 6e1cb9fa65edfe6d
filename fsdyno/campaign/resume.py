"""Going on with a campaign that was interrupted, only if it would still be the same campaign."""

from __future__ import annotations

from typing import Any

from fsdyno.campaign.abilities import Reason
from fsdyno.campaign.where import differences
from fsdyno.errors import Exit, UserError
from fsdyno.plan import Plan
from fsdyno.store import CampaignInfo, Store

LATEST = ""
"""Stands for the latest unfinished campaign."""


def find(store: Store, name: str, wanted: str) -> CampaignInfo:
    """The campaign to go on with: by id or its beginning, or the latest unfinished one of that name."""
    if wanted != LATEST:
        found = store.campaign(wanted)
        if found.status == "complete":
            raise UserError(
                "this campaign is complete",
                code=Exit.USAGE,
                where=f"campaign {found.id[:8]}",
                advice="see it with `fsdyno report`, or run the plan again without --resume",
            )
        return found
    unfinished = [c for c in store.campaigns() if c.status != "complete" and c.source == "measured"]
    of_plan = [c for c in unfinished if c.name == name]
    if not of_plan:
        others = ", ".join(sorted({c.name for c in unfinished}))
        raise UserError(
            f"there is no unfinished campaign named {name!r} to resume",
            code=Exit.USAGE,
            where=str(store.path),
            advice=f"unfinished campaigns here are of: {others}" if others else "run it without --resume",
        )
    return of_plan[-1]


def check_place(campaign: CampaignInfo, place: str) -> None:
    """Raises `UserError` if the trials would run elsewhere than those before. Asked before the plan, as
    each cell of a guest says its machine."""
    before = campaign.where.get("place", place)
    if before != place:
        raise UserError(
            f"this campaign began in place {before}, and {place} would be chosen now",
            code=Exit.CANNOT,
            where=f"campaign {campaign.id[:8]}",
            advice=f"go on with --place {before}, or run the plan as a new campaign without --resume",
        )


def check_plan(campaign: CampaignInfo, plan: Plan) -> None:
    """Raises `UserError` naming what changed in the plan since the campaign began."""
    old = {cell.name: cell.what for cell in campaign.cells}
    new = {cell.name: cell.what for cell in plan.cells}
    changes = [f"cell {name} is gone" for name in old if name not in new]
    changes += [f"cell {name} is new" for name in new if name not in old]
    changes += [f"cell {name} does something else" for name in new if old.get(name, new[name]) != new[name]]
    if not changes and list(old) != list(new):
        changes.append("the cells stand in another order")
    if dict(campaign.reference) != dict(plan.reference):
        changes.append("the reference is another one")
    if changes:
        raise UserError(
            "the plan has changed since this campaign began: " + "; ".join(changes),
            code=Exit.PLAN,
            where=f"campaign {campaign.id[:8]}",
            advice="undo the change, or run the plan as a new campaign without --resume",
        )


def check_where(campaign: CampaignInfo, where: dict[str, Any], left_out: dict[int, Reason]) -> None:
    """Raises `UserError` naming what changed on the rig since the campaign began."""
    changes = differences(campaign.where, where)
    for cell in campaign.cells:
        if cell.index in left_out and cell.excluded is None:
            changes.append(f"{cell.name} cannot run any more: {left_out[cell.index]['message']}")
        if cell.index not in left_out and cell.excluded is not None:
            changes.append(f"{cell.name} can run now")
    if changes:
        raise UserError(
            "this rig is not as it was when the campaign began: " + "; ".join(changes),
            code=Exit.CANNOT,
            where=f"campaign {campaign.id[:8]}",
            advice="run the plan as a new campaign without --resume; the old results stay in the store",
        )
