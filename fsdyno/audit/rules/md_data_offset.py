"""Members of arrays whose data begins within a block of their disk: arrays from old metadata."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit.questions import few
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Layer, Stack
from fsdyno.audit.starts import across, off_block
from fsdyno.audit.words import kib


def judge(stack: Stack) -> Iterator[Finding]:
    """Each array, by all of its members that are wrong. Where a member itself begins is another rule's."""
    for layer in stack.of_kind("md"):
        wrong, offset = dict[str, Layer](), 0
        for piece in layer.below:
            member = stack.layer(piece.on)
            if member and off_block(member, piece.offset):
                offset = offset or piece.offset
                wrong[piece.on] = member
        if wrong:
            yield Finding(
                Severity.ADVICE,
                layer.name,
                f"the data of {layer.node} begins {kib(offset)} into {few(list(wrong))}",
                "a multiple of the block of each member's medium, at least 4 KiB",
                across([stack.disk_of(member) for member in wrong.values()], "the end of each chunk"),
                "# back up, then make the array anew, which loses all that is on it, with --data-offset=1M",
            )


RULE = Rule(
    name="md-data-offset",
    title="start of data on members",
    source="mdadm(8), --data-offset; Linux Documentation/admin-guide/md.rst (offset)",
    needs=("layer", "segments", "queue"),
    judge=judge,
    caught=("md-data-offset",),
)
