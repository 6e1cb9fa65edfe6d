"""Volumes whose pieces are off the stripe though LVM's data begins on it: extents that are no multiple of
the stripe, as 4 MiB is none of 192 KiB. The first volume is right then, and the second one is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.evidence.ready import OFF_STRIPE
from fsdyno.audit.offstripe import advised, costly, why
from fsdyno.audit.questions import number
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack
from fsdyno.audit.words import kib
from fsdyno.units import show_bytes


def judge(stack: Stack) -> Iterator[Finding]:
    """What the volume adds to where the layers below it begin, for each of its pieces."""
    stripes = costly(stack)
    if stripes is None:
        return
    volumes = [layer for layer in stack.of_kind("lvm") if any(s.layer == layer.name for s in stripes.steps)]
    if not volumes:
        return
    volume, names = volumes[0], {layer.name for layer in volumes}
    others = sum(step.off for step in stripes.steps if step.pv or step.layer not in names)
    pieces = [(piece.off - others) % stripes.stripe for piece in stripes.pieces]
    bad = [(n, off) for n, off in enumerate(pieces, 1) if off]
    if not bad:
        return
    n, off = bad[0]
    which = f"piece {n} of {len(pieces)} of {volume.node}" if len(pieces) > 1 else volume.node
    more = f"; {len(bad) - 1} more are off" if len(bad) > 1 else ""
    extent = next((size for layer in stack.layers if (size := number(layer.facts, "extent"))), None)
    yield Finding(
        Severity.ADVICE,
        volume.name,
        f"{which} begins {kib(off)} behind the start of a stripe{more}"
        + (f"; extents are of {show_bytes(extent)}" if extent else ""),
        f"extents of a multiple of {kib(stripes.stripe)}, the stripe of {stripes.on}",
        why(stack, stripes),
        f"# move the data to a group with the extent (vgcreate -s) that this says: "
        f"{advised(stack, stripes, volume)}",
    )


RULE = Rule(
    name="extents",
    title="extents of volumes",
    source="vgcreate(8), --physicalextentsize; measured: docs/stacks.md",
    needs=("pv", "segments", "layer"),
    judge=judge,
    caught=("second-volume-ext4", "second-volume-xfs", "second-segment"),
    evidence=OFF_STRIPE,
)
