"""Where a layer begins on the one below it: within a block of the medium, or within a stripe. Asked by each
rule about where something begins."""

from __future__ import annotations

from fsdyno.audit.questions import PAGE, all_below, number
from fsdyno.audit.stack import Layer, Stack, Striped
from fsdyno.audit.words import kib


def off_block(disk: Layer, start: int) -> bool:
    """Whether a byte of a disk is within a block of its medium, or of a file system."""
    first = max(0, number(disk.queue, "alignment_offset") or 0)
    return (start - first) % PAGE != 0


def misplaced(lower: Layer, start: int) -> bool:
    """Whether what begins there is within a block by its own start. What begins with a block of a layer that
    is off itself is that layer's fault, and what makes up for it is right."""
    return start % PAGE != 0 and off_block(lower, start)


def across(disks: list[Layer], what: str) -> str:
    """Why it costs that blocks lie across two of the medium, as far as the disks tell theirs."""
    if any((number(disk.queue, "physical_block_size") or 0) >= PAGE for disk in disks):
        return f"{what} lies across two of the medium: writes read first"
    larger = "whose blocks are larger than it tells (flash, 512e behind a bridge)"
    return f"on a medium {larger} {what} lies across two: writes read first"


def under(stack: Stack, lower: Layer) -> Striped | None:
    """The uppermost stripes of a layer that something begins on, or of one below it."""
    names = {lower.name, *(layer.name for layer in all_below(stack, lower))}
    return next((stripes for stripes in stack.uppermost if stripes.on in names), None)


def whole(stripes: Striped | None) -> str:
    """What a start is to be a multiple of: stripes, or a MiB where there are none."""
    return (
        f"a multiple of {kib(stripes.stripe)}, the stripe of {stripes.on}"
        if stripes
        else "a multiple of 1 MiB"
    )


def behind(stack: Stack, stripes: Striped, layer: Layer, own: int, *, pv: bool = False) -> str:
    """How far a layer (`pv`: LVM's data on it) is off by its own start: from the start of a stripe only if
    nothing below it is off as well."""
    lower = {below.name for below in all_below(stack, layer)} | ({layer.name} if pv else set())
    mine = (layer.name, pv)
    if any(step.off and step.layer in lower and (step.layer, step.pv) != mine for step in stripes.steps):
        return f"which adds {kib(own)} to what lies below, and is off the stripe itself"
    return f"{kib(own)} behind the start of a stripe"
