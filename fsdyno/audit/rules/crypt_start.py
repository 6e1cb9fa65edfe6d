"""Encrypted devices whose data begins off the stripe, or within a block. cryptsetup itself rounds the start
of data to what the device below tells of its stripe: off are headers that were made elsewhere or with an
offset, plain dm-crypt, and what was moved to another array.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.evidence.ready import OFF_STRIPE
from fsdyno.audit.offstripe import advised, costly, why
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack, Striped
from fsdyno.audit.starts import across, behind, misplaced, under, whole
from fsdyno.audit.words import kib


def judge(stack: Stack) -> Iterator[Finding]:
    """Each encrypted layer on the way down, where what lies on it is off in all; then each one whose data is
    within a block of the medium."""
    told = set()
    for stripes in costly(stack):
        off = {step.layer: step.off for step in stripes.steps if not step.pv}
        for layer in stack.of_kind("crypt"):
            if off.get(layer.name) and layer.offset is not None:
                told.add(layer.name)
                yield _finding(
                    layer,
                    f"{_begins(layer, layer.offset)}, {behind(stack, stripes, layer, off[layer.name])}",
                    stripes,
                    why(stack, stripes),
                    f", then a multiple of what this says: {advised(stack, stripes, layer)}",
                )
    for layer in stack.of_kind("crypt"):
        start, lower = layer.offset, stack.layer(layer.below[0].on) if layer.below else None
        if start is None or lower is None or layer.name in told or not misplaced(lower, start):
            continue
        below = under(stack, lower)
        says = f"what this says: {advised(stack, below, lower)}" if below else "2048"
        reason = across([stack.disk_of(lower)], "each block of what is encrypted")
        then = f", then a multiple of {says}"
        yield _finding(layer, _begins(layer, start), below, reason, then, measured=False)


def _begins(layer: Layer, start: int) -> str:
    return f"the data of {layer.node} begins {kib(start)} into {layer.below[0].on}"


def _finding(
    layer: Layer, found: str, stripes: Striped | None, reason: str, then: str, *, measured: bool = True
) -> Finding:
    return Finding(
        Severity.ADVICE,
        layer.name,
        found,
        whole(stripes),
        reason,
        "# back up, then encrypt it anew; cryptsetup rounds by itself. If told by --offset, in sectors of "
        f"512 bytes{then}",
        measured,
    )


RULE = Rule(
    name="crypt-start",
    title="start of encrypted data",
    source="cryptsetup-luksFormat(8), --offset; Linux Documentation/admin-guide/device-mapper/dm-crypt.rst",
    needs=("segments", "layer", "queue"),
    judge=judge,
    caught=("crypt-start", "crypt-in-a-block"),
    evidence=OFF_STRIPE,
)
