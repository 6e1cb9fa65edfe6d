"""Devices that the kernel itself calls misaligned, for a reason that no other rule names."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit import shell
from fsdyno.audit.questions import number
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.rules import crypt_start, md_data_offset, optimal_io_size, partition_start, pv_start
from fsdyno.audit.stack import Layer, Stack

_NAMED = (partition_start, pv_start, crypt_start, md_data_offset, optimal_io_size)


def judge(stack: Stack) -> Iterator[Finding]:
    """The lowest such device: those above have it from there."""
    if any(stripes.off for stripes in stack.uppermost):
        return
    if any(any(rule.judge(stack)) for rule in _NAMED):
        return
    for layer in reversed(stack.layers):
        offset = number(layer.queue, "alignment_offset")
        if not offset or not _uses_its_start(stack, layer):
            continue
        yield Finding(
            Severity.ADVICE,
            layer.name,
            f"alignment_offset of {layer.node} is {offset}"
            + (": its parts do not fit together" if offset < 0 else " bytes"),
            "0",
            "what begins a block here lies within one of the medium: writes read first",
            f"# see each layer's own with: lsblk -t {shell.node(layer)}",
        )
        return


def _uses_its_start(stack: Stack, layer: Layer) -> bool:
    """A disk that is shifted on purpose is right as long as only its partitions, which fit, are used."""
    upper = list(stack.above(layer))
    return not upper or any(other.kind != "partition" for other in upper)


RULE = Rule(
    name="alignment-offset",
    title="what the kernel calls misaligned",
    source="Linux Documentation/ABI/stable/sysfs-block (alignment_offset)",
    needs=("queue", "layer"),
    judge=judge,
    caught=("shifted-disk",),
)
