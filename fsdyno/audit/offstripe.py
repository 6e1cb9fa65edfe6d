"""What lies off the stripe below so that it costs: asked by each rule about where something begins."""

from __future__ import annotations

from fsdyno.audit.stack import Layer, Stack, Striped

PARITY = ("raid4", "raid5", "raid6")


def costly(stack: Stack) -> Striped | None:
    """The stripe that the uppermost layer is off; None if it is on it, or nothing is lost by that.

    Where parity is kept, writes of whole stripes become parts of two, and old data is read for each.
    Elsewhere only what is off the chunk matters: then what would be on one member lies on two.
    """
    stripes = stack.stripes
    if stripes is None or stripes.off == 0:
        return None
    below = stack.layer(stripes.on)
    parity = below is not None and below.facts.get("level") in PARITY
    off_chunk = any(piece.off % stripes.chunk for piece in stripes.pieces)
    return stripes if parity or off_chunk else None


def why(stack: Stack, stripes: Striped) -> str:
    """Why it matters, in a line."""
    below = stack.layer(stripes.on)
    if below is not None and below.facts.get("level") in PARITY:
        return "what is written as a whole stripe covers parts of two: old data is read for parity first"
    return "what is written as one chunk covers parts of two, on two members"


def advised(stack: Stack, stripes: Striped, instead: Layer) -> str:
    """The command that tells where to begin: numbers that follow from geometry are the agent's."""
    below = stack.layer(stripes.on) or instead
    return f"fsdyno align --device {below.node}"
