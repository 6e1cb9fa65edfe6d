"""What lies off the stripe below so that it costs: asked by each rule about where something begins."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit import shell
from fsdyno.audit.stack import Layer, Stack, Striped

PARITY = ("raid4", "raid5", "raid6")


def keeps_parity(stack: Stack, stripes: Striped) -> bool:
    """Whether writes of parts of a stripe read first."""
    below = stack.layer(stripes.on)
    return below is not None and below.facts.get("level") in PARITY


def costly(stack: Stack) -> Iterator[Striped]:
    """The stripes that the uppermost layer is off so that something is lost by it.

    Where parity is kept, writes of whole stripes become parts of two, and old data is read for each.
    Elsewhere only what is off the chunk matters: then what would be on one member lies on two.
    """
    for stripes in stack.uppermost:
        if stripes.off and (keeps_parity(stack, stripes) or any(piece.off_chunk for piece in stripes.pieces)):
            yield stripes


def why(stack: Stack, stripes: Striped) -> str:
    """Why it matters, in a line."""
    if keeps_parity(stack, stripes):
        return "what is written as a whole stripe covers parts of two: old data is read for parity first"
    return "what is written as one chunk covers parts of two, on two members"


def advised(stack: Stack, stripes: Striped, instead: Layer) -> str:
    """The command that tells where to begin: numbers that follow from geometry are the agent's."""
    return f"fsdyno align --device {shell.node(stack.layer(stripes.on) or instead)}"
