"""LVM's data that begins off the stripe, or within a block: every volume of the group is off then."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.evidence.ready import OFF_STRIPE
from fsdyno.audit.offstripe import advised, costly, why
from fsdyno.audit.questions import number
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack
from fsdyno.audit.starts import across, behind, misplaced, under, whole
from fsdyno.audit.words import kib


def judge(stack: Stack) -> Iterator[Finding]:
    """Each physical volume on the way down, where what lies on it is off in all; then each one whose data is
    within a block of the medium."""
    told = set()
    for stripes in costly(stack):
        for step in stripes.steps:
            layer = stack.layer(step.layer)
            start = number(layer.facts, "pv_start") if layer else None
            if layer and step.pv and step.off and start is not None:
                told.add(layer.name)
                yield Finding(
                    Severity.ADVICE,
                    layer.name,
                    f"LVM's data on {layer.node} begins at {kib(start)}, "
                    f"{behind(stack, stripes, layer, step.off, pv=True)}",
                    whole(stripes),
                    why(stack, stripes),
                    f"# move the data, then pvcreate --dataalignment as this says: "
                    f"{advised(stack, stripes, layer)}",
                )
    for layer in stack.layers:
        start = number(layer.facts, "pv_start")
        if start is not None and layer.name not in told and misplaced(layer, start):
            below = under(stack, layer)
            yield Finding(
                Severity.ADVICE,
                layer.name,
                f"LVM's data on {layer.node} begins at {kib(start)}",
                whole(below),
                across([stack.disk_of(layer)], "each block of the volumes"),
                "# move the data, then pvcreate --dataalignment "
                + (f"as this says: {advised(stack, below, layer)}" if below else "1m"),
                measured=False,
            )


RULE = Rule(
    name="pv-start",
    title="start of LVM's data",
    source="pvcreate(8), --dataalignment; measured: docs/stacks.md",
    needs=("pv", "segments", "layer", "queue"),
    judge=judge,
    caught=("pv-start", "pv-in-a-block"),
    evidence=OFF_STRIPE,
)
