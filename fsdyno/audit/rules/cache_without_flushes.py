"""A layer that says it has no cache, above a disk that has one: the kernel drops flushes at that layer."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit import shell
from fsdyno.audit.evidence.ready import BARRIERS_OFF
from fsdyno.audit.questions import THROUGH, VOLATILE, all_below, few, is_read_only, text
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack


def judge(stack: Stack) -> Iterator[Finding]:
    """Each device with a queue of its own against the leaves below it.

    md always announces a cache, the device mapper if anything below has one, and a loop device if its file
    can be synced: only somebody's setting, or a disk whose cache was switched on later, makes them differ.
    A partition shows the queue of its disk, so it is left out.
    """
    if is_read_only(stack):
        return
    for layer in stack.layers:
        if layer.kind == "partition" or text(layer.queue, "write_cache") != THROUGH:
            continue
        below = _caches(stack, layer)
        if below:
            yield Finding(
                Severity.DANGER,
                layer.name,
                f"{layer.node} says {THROUGH}, but below it {below}",
                f"{VOLATILE} at {layer.node}, so that flushes pass",
                "the kernel drops every flush here: what was synced is lost when power fails",
                f"echo '{VOLATILE}' > {shell.attribute(layer, 'queue/write_cache')}",
            )


def _caches(stack: Stack, layer: Layer) -> str:
    if layer.kind == "loop":
        # One that may only be read has none; what is mounted read-only is not judged.
        return "is a file that has to be synced" if stack.mount else ""
    lower = list(all_below(stack, layer))
    nodes = [leaf.node for leaf in lower if leaf in stack.leaves and _volatile(leaf)]
    return f"{few(nodes)} cache writes" if nodes else ""


def _volatile(leaf: Layer) -> bool:
    return text(leaf.queue, "write_cache") == VOLATILE


RULE = Rule(
    name="cache-without-flushes",
    title="layers that drop flushes above a volatile write cache",
    source="Linux Documentation/block/writeback_cache_control.rst; md_alloc, dm_table_supports_flush and "
    "loop_configure of the kernel; measured: 400 flushes of 200 fsyncs became 0",
    needs=("queue", "layer"),
    judge=judge,
    caught=("write-through-lvm", "write-through-md"),
    evidence=BARRIERS_OFF,
)
