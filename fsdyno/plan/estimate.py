"""About how long a campaign will take, and how much it will write. A budget is shown before the
start; it rests on assumed rates and says so. A campaign under way corrects it by what it measures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fsdyno.plan.effects import Step, follow
from fsdyno.plan.model import Plan

# Assumed rates of a modest virtual disk: right within a factor of about three, no more.
BYTES_PER_SECOND = 800e6  # streams, mostly through the page cache
BACKING_PER_SECOND = 200e6  # backing files, past the page cache
FILES_PER_SECOND = 20e3
RANDOM_PER_SECOND = 15e3
STEP_SECONDS = 0.05  # mount, unmount, remount, a setting
TOOL_SECONDS = 0.15  # mkfs, a full check of little data
TRIAL_SECONDS = 0.2  # building and taking down


@dataclass(frozen=True)
class Estimate:
    """What a campaign costs."""

    seconds_per_round: float
    setup: float  # writing backing files, once
    total: float  # setup and all rounds
    bytes_written: int  # all rounds and the backing files
    how: str = "rough: assumed rates, nothing measured yet"  # what it rests on


def estimate(plan: Plan) -> Estimate:
    """Estimates a plan from what its phases do."""
    courses = [follow(cell.expand(range(len(plan.points)))) for cell in plan.cells]
    per_round = sum(trial_seconds(course.steps) for course in courses)
    space = plan.space()
    written = space + plan.rounds * sum(course.written for course in courses)
    setup = space / BACKING_PER_SECOND
    return Estimate(per_round, setup, setup + plan.rounds * per_round, written)


def trial_seconds(steps: Iterable[Step]) -> float:
    """Seconds of one trial at the assumed rates."""
    return TRIAL_SECONDS + sum(_step_seconds(step) for step in steps)


def _step_seconds(step: Step) -> float:
    if step.runtime:
        return step.runtime
    if step.kind in ("mkfs", "check"):
        return TOOL_SECONDS
    if step.kind != "workload":
        return STEP_SECONDS
    if step.operations:
        return step.operations / RANDOM_PER_SECOND
    return step.files / FILES_PER_SECOND + (step.written + step.read) / BYTES_PER_SECOND
