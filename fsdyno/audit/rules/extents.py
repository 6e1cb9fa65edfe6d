"""Volumes whose pieces are off the stripe though LVM's data begins on it: extents that are no multiple of
the stripe, as 4 MiB is none of 192 KiB. The first volume is right then, and the second one is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.evidence.ready import OFF_STRIPE
from fsdyno.audit.offstripe import advised, costly, why
from fsdyno.audit.questions import number
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack, Striped
from fsdyno.audit.starts import behind
from fsdyno.audit.words import kib
from fsdyno.units import show_bytes


def judge(stack: Stack) -> Iterator[Finding]:
    """What the volume adds to where the layers below it begin, for each of its pieces."""
    for stripes in costly(stack):
        on_way = {step.layer for step in stripes.steps}
        volume = next((layer for layer in stack.of_kind("lvm") if layer.name in on_way), None)
        bad = _bad(stack, stripes, volume) if volume else []
        if volume is None or not bad:
            continue
        n, own, total = bad[0]
        pieces = len(stripes.pieces)
        whole = f"what {volume.node} has on {stripes.on}" if stripes.pieces[0].start else volume.node
        which = f"piece {n} of {pieces} of {volume.node}" if pieces > 1 else whole
        more = f"; {len(bad) - 1} more are off" if len(bad) > 1 else ""
        off = f"{kib(total)} behind the start of a stripe" if total else behind(stack, stripes, volume, own)
        if total and total != own:
            off += f", to which it adds {kib(own)} itself"
        extent = next((size for layer in stack.layers if (size := number(layer.facts, "extent"))), None)
        yield Finding(
            Severity.ADVICE,
            volume.name,
            f"{which} begins {off}{more}" + (f"; extents are of {show_bytes(extent)}" if extent else ""),
            f"extents of a multiple of {kib(stripes.stripe)}, the stripe of {stripes.on}",
            why(stack, stripes),
            f"# move the data to a group with the extent (vgcreate -s) that this says: "
            f"{advised(stack, stripes, volume)}",
        )


def _bad(stack: Stack, stripes: Striped, volume: Layer) -> list[tuple[int, int, int]]:
    """Numbers of the pieces that the volume puts off the stripe, from 1; by how much itself; and how much
    they are off in all (0 where that is known of what lies on the volume only).

    A piece that is off is the volume's doing where nothing else on its way down adds to it. Where something
    does, only of the first piece is known what the volume adds (its step); of others that is not said, and
    they are judged again when the rest is mended.
    """
    steps = {step.layer: step.off for step in stripes.steps if not step.pv}
    pvs = {step.layer: step.off for step in stripes.steps if step.pv}
    volumes = {name for name in steps if (layer := stack.layer(name)) and layer.kind == "lvm"}
    first = sum(steps[name] for name in volumes)
    on_way, moved = {*steps, *pvs, stripes.on}, dict[str, bool]()

    def moves(name: str) -> bool:
        """Whether a layer, or one between it and the stripes, moves what lies on it; volumes do not count."""
        if name not in moved:
            layer = stack.layer(name)
            own = pvs.get(name) or (name not in volumes and steps.get(name))
            lower = layer.lower if layer and name != stripes.on else ()
            moved[name] = bool(own) or any(moves(on) for on in lower if on in on_way)
        return moved[name]

    top = stack.layers[0]
    ways = {piece.start: piece.on for piece in top.below} if top is volume else {}
    bad = []
    for n, piece in enumerate(stripes.pieces, 1):
        if piece.off and not moves(ways.get(piece.start, top.name)):
            bad.append((n, piece.off, piece.off))
        elif piece.off and n == 1 and first:
            bad.append((n, first, piece.off if top is volume else 0))
    return bad


RULE = Rule(
    name="extents",
    title="extents of volumes",
    source="vgcreate(8), --physicalextentsize; measured: docs/stacks.md",
    needs=("pv", "segments", "layer"),
    judge=judge,
    caught=("second-volume-ext4", "second-volume-xfs", "second-segment", "two-arrays"),
    evidence=OFF_STRIPE,
)
