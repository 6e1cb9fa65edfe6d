"""About how long a campaign will take, and how much it will write. A budget is shown before the
start; it rests on assumed rates and says so. A campaign under way corrects it by what it measures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fsdyno.plan.effects import Step, follow, leaves, load_of
from fsdyno.plan.model import Plan, Spec, canonical

# Assumed rates of a modest virtual disk: right within a factor of about three, no more.
BYTES_PER_SECOND = 800e6  # streams, mostly through the page cache
BACKING_PER_SECOND = 200e6  # backing files, past the page cache
FILES_PER_SECOND = 20e3
RANDOM_PER_SECOND = 15e3
STEP_SECONDS = 0.05  # mount, unmount, remount, a setting
TOOL_SECONDS = 0.15  # mkfs, a full check of little data
TRIAL_SECONDS = 0.2  # building and taking down
RESYNC_PER_SECOND = 100e6  # bytes of each member, while parity or copies are computed

# A guest with emulated CPUs, as most are that are booted where KVM is missing.
BOOT_SECONDS = 20.0  # each machine, once a round
GUEST_FACTOR = 8.0  # all that the CPUs do takes so many times longer


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
    specs = [cell.expand(range(len(plan.points))) for cell in plan.cells]
    courses = [follow(spec) for spec in specs]
    machines = {canonical(spec["machine"]) for spec in specs if "machine" in spec}
    per_round = len(machines) * BOOT_SECONDS
    for spec, course in zip(specs, courses, strict=True):
        slower = GUEST_FACTOR if "machine" in spec else 1.0
        per_round += slower * trial_seconds(course.steps) + _resync_seconds(spec)
    space = plan.space()
    written = space + plan.rounds * sum(course.written for course in courses)
    setup = space / BACKING_PER_SECOND
    return Estimate(per_round, setup, setup + plan.rounds * per_round, written)


def trial_seconds(steps: Iterable[Step]) -> float:
    """Seconds of one trial at the assumed rates."""
    return TRIAL_SECONDS + sum(_step_seconds(step) for step in steps)


def _resync_seconds(spec: Spec) -> float:
    """What arrays wait for: at their start, and where a phase waits for a rebuild or a reshape."""
    array = spec["stack"].get("array")
    if array is None:
        return 0.0
    waits = sum(load_of(phase)[0] in ("add", "resync", "grow") for phase in spec["phases"])
    waits += array.get("resync") == "wait" and array["level"] != 0
    sizes = [device["file"]["size"] for _, device in leaves(spec["stack"]) if "file" in device]
    return float(waits * max(sizes, default=0) / RESYNC_PER_SECOND)


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
