"""Where the trials of a plan run: one place for all its cells, so that rows are compared within one kernel.

The survey says what each place can do; a kernel for guests is fetched only where it would let more cells
run. What was chosen and why is told before the first trial and recorded with the campaign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fsdyno.campaign.abilities import (
    DIRECTORY,
    Reason,
    Survey,
    anywhere,
    assert_some,
    in_directory,
    kernel_of,
    sentence,
    unsupported,
)
from fsdyno.errors import Exit, UserError
from fsdyno.plan import Plan
from fsdyno.plan.model import AUTO, GUEST, NATIVE
from fsdyno.units import show_bytes

GetKernel = Callable[[], None]
"""Puts a kernel for guests into the cache, if none is there. Raises `UserError`."""

EMULATED = "if its CPUs are emulated, trust counts, not times"
_REASONS = 3  # so many are told of why a place was not taken


@dataclass(frozen=True)
class Choice:
    """A plan in its place."""

    place: str  # native | guest | directory
    plan: Plan
    """In a guest with the machine of each cell, so that configurations say it."""
    left_out: dict[int, Reason]
    """Cell index -> why it cannot run there."""
    why: str
    """For a person: `guest: this kernel has no …`."""
    survey: Survey
    """What it rests on: made again once a kernel was fetched."""


def choose(plan: Plan, wanted: str | None, look: Callable[[], Survey], get_kernel: GetKernel) -> Choice:
    """The place of a plan. `wanted` is what the command line says instead of the plan's own `place`;
    `look` makes a survey. Raises `UserError` if no cell can run."""
    asked = _asked(plan, wanted)
    survey = look()
    if all(in_directory(cell) for cell in plan.cells):
        return _settle(DIRECTORY, plan, survey, "directory: each cell names one")
    natively = unsupported(plan, NATIVE, survey)
    if asked == NATIVE or (asked == AUTO and not natively):
        because = "as asked" if asked == NATIVE else "every cell runs on this machine itself"
        return _settle(NATIVE, plan, survey, f"native: {because}")
    if asked == GUEST:
        survey = _with_kernel(survey, look, get_kernel)
        because = "the plan names a machine" if plan.has_machine else "as asked"
        return _in_guest(plan, survey, because)
    lacking = _why(natively)
    if len(_hopeless(plan, survey)) >= len(natively):
        return _settle(NATIVE, plan, survey, f"native: no other place runs more cells ({lacking})")
    try:
        survey = _with_kernel(survey, look, get_kernel)
    except UserError as error:
        if len(natively) == len(plan.cells):
            raise
        return _settle(NATIVE, plan, survey, f"native: a guest would run more cells, but {error.message}")
    if len(unsupported(plan.in_guest(), GUEST, survey)) < len(natively):
        return _in_guest(plan, survey, lacking)
    no_guest = sentence(_guest(survey).get("reason")) if not _guest(survey).get("able") else lacking
    return _settle(NATIVE, plan, survey, f"native: a guest would run no more cells ({no_guest})")


def with_survey(choice: Choice, survey: Survey) -> Choice:
    """The same place by another survey: of an agent with other rights. Raises `UserError` if no cell can run
    there then, or a guest does not fit."""
    found = replace(choice, survey=survey, left_out=unsupported(choice.plan, choice.place, survey))
    assert_some(found.plan, found.left_out)
    _assert_fits(found)
    return found


def _asked(plan: Plan, wanted: str | None) -> str:
    if plan.has_machine and wanted == NATIVE:
        raise UserError(
            "the plan names a machine, which is a guest",
            code=Exit.USAGE,
            where="--place",
            advice="leave --place out, or `machine` out of the plan",
        )
    return GUEST if plan.has_machine else wanted or plan.place


def _settle(place: str, plan: Plan, survey: Survey, why: str) -> Choice:
    left_out = unsupported(plan, place, survey)
    guest = survey["places"].get(GUEST, {})
    if place == NATIVE and not guest.get("able") and (reason := guest.get("reason")):
        # What would run in a guest is missing for two reasons; the second is often the easier one.
        helped = {cell.index for cell in plan.cells if not anywhere(cell, survey)}
        left_out = {n: _or_a_guest(no, reason) if n in helped else no for n, no in left_out.items()}
    assert_some(plan, left_out)
    return Choice(place, plan, left_out, why, survey)


def _or_a_guest(native: Reason, guest: Reason) -> Reason:
    advice = f"{native['advice']}; or run a guest: " if native.get("advice") else "or run a guest: "
    return {**native, "advice": advice + sentence(guest)}


def _in_guest(plan: Plan, survey: Survey, because: str) -> Choice:
    plan = plan.in_guest()
    choice = _settle(GUEST, plan, survey, f"guest ({_kernels(plan, survey)}): {because}; {EMULATED}")
    _assert_fits(choice)
    return choice


def _kernels(plan: Plan, survey: Survey) -> str:
    """The kernels that the guests of a plan boot."""
    left_out = unsupported(plan, GUEST, survey)
    cells = (cell for cell in plan.cells if cell.index not in left_out and not in_directory(cell))
    booted = list(dict.fromkeys(kernel_of(cell, survey) for cell in cells))
    return f"kernel{'s' if len(booted) > 1 else ''} {', '.join(map(str, booted)) or 'none'}"


def _assert_fits(choice: Choice) -> None:
    """A guest's memory is the machine's own: one that has no room for it ends both."""
    memory = int(choice.survey["host"]["memory"])
    for cell in choice.plan.cells:
        needed = int((cell.spec.get("machine") or {}).get("memory", 0))
        if cell.index not in choice.left_out and needed >= memory:
            raise UserError(
                f"a guest of {show_bytes(needed)} does not fit into this machine's {show_bytes(memory)}",
                code=Exit.CANNOT,
                where=f"{cell.name}: machine.memory",
                advice="give the guest less, and leave some to this machine itself",
            )


def _with_kernel(survey: Survey, look: Callable[[], Survey], get_kernel: GetKernel) -> Survey:
    """A survey of a machine that has a kernel for guests, if it can have one."""
    emulator = survey["tools"].get(f"qemu-system-{survey['host']['machine']}")
    if survey.get("kernels") or GUEST not in survey["places"] or (emulator and not emulator.get("path")):
        return survey  # what it says is all that there is to say
    get_kernel()
    return look()


def _hopeless(plan: Plan, survey: Survey) -> dict[int, Reason]:
    """The cells that no guest would run, whatever its kernel, as far as that is known without one."""
    if survey.get("kernels"):
        return unsupported(plan.in_guest(), GUEST, survey)
    disks = {
        cell.index: {"message": "a guest gets no real disk, only files"}
        for cell in plan.cells
        if any("disk" in device for device in cell.spec["stack"].get("devices", ()))
    }
    return disks | {cell.index: why for cell in plan.cells if (why := anywhere(cell, survey))}


def _guest(survey: Survey) -> Mapping[str, Any]:
    found: Mapping[str, Any] = survey["places"].get(GUEST) or {
        "able": False,
        "reason": {"message": "this agent boots no guests"},
    }
    return found


def _why(left_out: Mapping[int, Reason]) -> str:
    """Why cells are left out, each reason once; those that differ in one word only are one."""
    texts = _folded(dict.fromkeys(reason["message"] for reason in left_out.values()))
    more = len(texts) - _REASONS
    if more > 0:
        texts[_REASONS:] = [f"and {more} more reason{'' if more == 1 else 's'}"]
    return "; ".join(texts)


def _folded(texts: Iterable[str]) -> list[str]:
    """`no a here`, `no b here` as `no a, b here`."""
    found: list[tuple[list[str], list[str], int | None]] = []  # words, what stands in the place, the place
    for text in texts:
        words = re.findall(r"[\w.+-]+|[^\w.+-]+", text)
        for i, (base, others, place) in enumerate(found):
            apart = [n for n, (a, b) in enumerate(zip(base, words, strict=False)) if a != b]
            if len(base) == len(words) and len(apart) == 1 and place in (None, apart[0]):
                found[i] = (base, [*others, words[apart[0]]], apart[0])
                break
        else:
            found.append((words, [], None))
    return [
        "".join(", ".join([word, *others]) if n == place else word for n, word in enumerate(words))
        for words, others, place in found
    ]
