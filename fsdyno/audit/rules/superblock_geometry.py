"""File systems that work with another stripe than the one below: that of an array before, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fsdyno.audit.evidence.ready import GEOMETRY
from fsdyno.audit.offstripe import advised, keeps_parity
from fsdyno.audit.questions import few, place
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack


def judge(stack: Stack) -> Iterator[Finding]:
    """What the superblock and the mount say, number by number, as the file system's own tools name them."""
    system, stripes = stack.filesystem, stack.uppermost
    if system is None or system.geometry is None or system.expected_geometry is None or not stripes:
        return
    expected = system.expected_geometry
    if all(system.geometry.get(name) == value for name, value in expected.items()):
        return
    known = {name: system.geometry.get(name, 0) for name in expected}
    parity, told = any(keeps_parity(stack, one) for one in stripes), any(known.values())
    why = "what it places and writes by stripes lies across those of the array"
    if not told:
        why = "it places files and inodes without regard to stripes: "
        why += "partial stripes cost reads" if parity else "some lie across two members"
    yield Finding(
        Severity.ADVICE if told or parity else Severity.NOTE,
        place(stack),
        _shown(known) + ("" if told else " (none)"),
        f"{_shown(expected)}, for the stripe of {few([one.on for one in stripes])}",
        why,
        system.commands.get("tell_geometry")
        or f"# make it anew as this says: {advised(stack, stripes[0], stack.layers[0])}",
    )


def _shown(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in numbers.items())


RULE = Rule(
    name="superblock-geometry",
    title="stripe that the file system works with",
    source="ext4(5), stripe=; mke2fs(8), -E stride, stripe_width; xfs(5), sunit, swidth; mkfs.xfs(8), -d su",
    needs=("superblock", "segments", "layer"),
    judge=judge,
    caught=("foreign-stride", "no-stride", "noalign-xfs"),
    evidence=GEOMETRY,
)
