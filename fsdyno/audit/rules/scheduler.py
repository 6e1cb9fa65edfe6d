"""The scheduler of requests, which only the disks at the bottom have."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit import shell
from fsdyno.audit.questions import is_virtual, number, text
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack

# Those that order by place, for disks with heads; those that share time among processes by waiting.
FOR_HEADS = ("mq-deadline", "bfq", "deadline", "cfq")
WAITING = ("bfq", "cfq")


def judge(stack: Stack) -> Iterator[Finding]:
    """Disks with hardware behind them; where a hypervisor serves the disk, its host schedules."""
    for leaf in stack.leaves:
        chosen, rotates = text(leaf.queue, "scheduler"), number(leaf.queue, "rotational")
        if is_virtual(leaf) or not chosen or rotates is None:
            continue
        if rotates and chosen not in FOR_HEADS:
            yield _finding(
                leaf, chosen, "mq-deadline", "requests are not put in order, so the heads move more"
            )
        elif not rotates and chosen in WAITING:
            why = "it takes time per request and idles for readers, where nothing has to move"
            yield _finding(leaf, chosen, "none", why)


def _finding(leaf: Layer, chosen: str, better: str, why: str) -> Finding:
    return Finding(
        Severity.ADVICE,
        leaf.name,
        f"scheduler {chosen} at {leaf.node}, {_medium(leaf)}",
        f"{better}, set here: arrays and volumes above have none",
        why,
        f"echo {better} > {shell.attribute(leaf, 'queue/scheduler')}",
    )


def _medium(leaf: Layer) -> str:
    return "a disk that rotates" if number(leaf.queue, "rotational") else "which does not rotate"


RULE = Rule(
    name="scheduler",
    title="scheduler of the disks",
    source="Linux Documentation/block/bfq-iosched.rst, deadline-iosched.rst and switching-sched.rst; "
    "measured: md and dm have none",
    needs=("queue",),
    judge=judge,
    caught=("scheduler-bfq",),
)
