"""Members of arrays whose data begins within a block of their disk: arrays from old metadata."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.questions import few
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.rules.partition_start import off_block
from fsdyno.audit.stack import Stack
from fsdyno.audit.words import kib


def judge(stack: Stack) -> Iterator[Finding]:
    """Each array, by all of its members that are wrong. Where a member itself begins is another rule's."""
    for layer in stack.of_kind("md"):
        wrong = {
            piece.on: piece.offset
            for piece in layer.below
            if (member := stack.layer(piece.on)) and off_block(member, piece.offset)
        }
        if wrong:
            yield Finding(
                Severity.ADVICE,
                layer.name,
                f"the data of {layer.node} begins {kib(next(iter(wrong.values())))} into {few(list(wrong))}",
                "a multiple of the block of each member's medium, at least 4 KiB",
                "each chunk begins within a block of the disk: writes of whole chunks read first",
                f"# back up, then make it anew: mdadm --create {layer.node} --data-offset=1M …",
            )


RULE = Rule(
    name="md-data-offset",
    title="start of data on members",
    source="mdadm(8), --data-offset; Linux Documentation/admin-guide/md.rst (offset)",
    needs=("layer", "segments", "queue"),
    judge=judge,
    caught=("md-data-offset",),
)
