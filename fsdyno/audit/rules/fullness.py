"""File systems that have no room to choose where they write."""

from __future__ import annotations

from collections.abc import Iterator

from fsdyno.audit import shell
from fsdyno.audit.questions import is_read_only
from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.stack import Stack
from fsdyno.units import show_bytes

# The share that mke2fs keeps free by itself, so that allocation has room.
LEAST = 0.05
# However small a share it is: that much has room for what is written meanwhile, unless it is in small pieces.
ROOM = 100 << 30
# Free space in pieces below 1 MiB: half of it is too much. With less than 64 MiB free there is nothing to
# judge, since the end of every group is such a piece.
LARGE_SHARE = 0.5
ENOUGH = 64 << 20


def judge(stack: Stack) -> Iterator[Finding]:
    """Free bytes, then free inodes, then what pieces the free bytes are in, if all were seen."""
    mount, space = stack.mount, stack.filesystem.space if stack.filesystem else None
    if mount is None or space is None or space.size <= 0 or is_read_only(stack) or not stack.layers:
        return
    pieces = space.pieces
    whole = pieces is not None and pieces.whole
    largest = f", the largest piece {show_bytes(pieces.largest)}" if pieces and whole else ""
    point = shell.word(mount.point)
    if space.available < min(LEAST * space.size, ROOM):
        yield Finding(
            Severity.ADVICE,
            mount.point,
            f"{_percent(space.available, space.size)} free for users: {show_bytes(space.available)}{largest}",
            f"{100 * LEAST:.0f} % and more",
            "new files get the holes that are left, in pieces: slower now, and for as long as they live",
            f"du -xh --max-depth=2 {point} | sort -h | tail",
        )
    elif space.inodes > 0 and space.inodes_free < LEAST * space.inodes:
        yield Finding(
            Severity.ADVICE,
            mount.point,
            f"{_percent(space.inodes_free, space.inodes)} of the inodes free: {space.inodes_free}",
            f"{100 * LEAST:.0f} % and more",
            "when they are used up no file can be made, whatever space is free",
            f"du -x --inodes --max-depth=2 {point} | sort -n | tail",
        )
    if pieces is None or not whole or pieces.bytes < ENOUGH:
        return
    if pieces.in_large < LARGE_SHARE * pieces.bytes:
        small = pieces.bytes - pieces.in_large
        yield Finding(
            Severity.ADVICE,
            mount.point,
            f"free space is fragmented: {_percent(small, pieces.bytes)} in pieces below 1 MiB",
            f"{100 - 100 * LARGE_SHARE:.0f} % at most",
            "large files are written in many places and read back with as many seeks",
            "# free more space: copy large files away, delete them, and copy them back",
        )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


RULE = Rule(
    name="fullness",
    title="free space, its pieces, and free inodes",
    source="mke2fs(8), -m (5 % kept against fragmentation); e2freefrag(8); statvfs(3); 100 GiB "
    "and half of the free space in pieces below 1 MiB are our thresholds",
    needs=("space", "pieces"),
    judge=judge,
    caught=("nearly-full", "fragmented"),
)
