"""Encrypted devices whose data begins off the stripe. cryptsetup itself rounds the start of data to what the
device below tells of its stripe: off are headers that were made elsewhere or with an offset, plain dm-crypt,
and what was moved to another array.
"""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.evidence.ready import OFF_STRIPE
from fsdyno.audit.offstripe import advised, costly, why
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack
from fsdyno.audit.words import kib


def judge(stack: Stack) -> Iterator[Finding]:
    """Each encrypted layer on the way down, where what lies on it is off in all."""
    for stripes in costly(stack):
        off = {step.layer: step.off for step in stripes.steps if not step.pv}
        for layer in stack.of_kind("crypt"):
            if off.get(layer.name) and layer.offset is not None:
                yield Finding(
                    Severity.ADVICE,
                    layer.name,
                    f"the data of {layer.node} begins {kib(layer.offset)} into {layer.below[0].on}, "
                    f"{kib(off[layer.name])} behind the start of a stripe",
                    f"a multiple of {kib(stripes.stripe)}, the stripe of {stripes.on}",
                    why(stack, stripes),
                    "# back up, then encrypt it anew; cryptsetup rounds by itself. If told by --offset, "
                    "in sectors of 512 bytes, then a multiple of what this says: "
                    f"{advised(stack, stripes, layer)}",
                )


RULE = Rule(
    name="crypt-start",
    title="start of encrypted data",
    source="cryptsetup-luksFormat(8), --offset; Linux Documentation/admin-guide/device-mapper/dm-crypt.rst",
    needs=("segments", "layer"),
    judge=judge,
    caught=("crypt-start",),
    evidence=OFF_STRIPE,
)
