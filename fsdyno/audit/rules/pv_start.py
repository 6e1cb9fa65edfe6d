"""LVM's data that begins off the stripe: every volume of the group is off then."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.evidence.ready import OFF_STRIPE
from fsdyno.audit.offstripe import advised, costly, why
from fsdyno.audit.questions import number
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack
from fsdyno.audit.words import kib


def judge(stack: Stack) -> Iterator[Finding]:
    """Each physical volume on the way down, where what lies on it is off in all."""
    for stripes in costly(stack):
        for step in stripes.steps:
            layer = stack.layer(step.layer)
            start = number(layer.facts, "pv_start") if layer else None
            if layer and step.pv and step.off and start is not None:
                yield Finding(
                    Severity.ADVICE,
                    layer.name,
                    f"LVM's data on {layer.node} begins at {kib(start)}, "
                    f"{kib(step.off)} behind the start of a stripe",
                    f"a multiple of {kib(stripes.stripe)}, the stripe of {stripes.on}",
                    why(stack, stripes),
                    f"# move the data, then pvcreate --dataalignment as this says: "
                    f"{advised(stack, stripes, layer)}",
                )


RULE = Rule(
    name="pv-start",
    title="start of LVM's data",
    source="pvcreate(8), --dataalignment; measured: docs/stacks.md",
    needs=("pv", "segments", "layer"),
    judge=judge,
    caught=("pv-start",),
    evidence=OFF_STRIPE,
)
