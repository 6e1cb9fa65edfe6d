"""The contrasts that ready plans measure, for the rules whose findings they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsdyno.audit.evidence.model import Evidence, Seen, Shown
from fsdyno.audit.offstripe import PARITY, costly, keeps_parity

if TYPE_CHECKING:
    from fsdyno.audit.stack import Stack

_DEFAULT_READ_AHEAD = 128 << 10
_SMALL_JOURNAL = 16 << 20

_PARTIAL_STRIPES = (
    Shown("member_read_per_written", "stream", ("rewrite", "write"), "B read per B written"),
    Shown("member_written_per_written", "stream", ("rewrite", "write"), "B written per B"),
)


def _keeps_parity(stack: Stack) -> bool:
    """Partial stripes are read first for parity's sake; elsewhere they cost something that no plan counts."""
    return any(keeps_parity(stack, stripes) for stripes in stack.uppermost)


def _is_off_stripe(stack: Stack) -> bool:
    return any(keeps_parity(stack, stripes) for stripes in costly(stack))


def _not_aligned(seen: Seen) -> bool | None:
    """Of arrays with parity: whether what lies on them does not fit their stripes."""
    aligned, level = seen.told("aligned"), seen.setting("stack.array.level")
    return None if aligned is None or f"raid{level}" not in PARITY else not aligned


def _volume_off_stripe(seen: Seen) -> bool | None:
    return None if seen.setting("stack.lvm") is None else _not_aligned(seen)


def _without_barriers(seen: Seen) -> bool | None:
    return {"off": True, "on": False}.get(seen.told("barriers"))


def _little_read_ahead(seen: Seen) -> bool | None:
    found = seen.setting("stack.settings.read_ahead")
    return None if found is None else bool(found < _DEFAULT_READ_AHEAD)


def _reads_little_ahead(stack: Stack) -> bool:
    mount = stack.mount
    return mount is not None and mount.read_ahead is not None and mount.read_ahead < _DEFAULT_READ_AHEAD


def _small_journal(seen: Seen) -> bool | None:
    """Right is what mkfs takes by itself."""
    found = seen.setting("filesystem.journal_size")
    if found is None:
        return False
    return True if found <= _SMALL_JOURNAL else None


def _has_small_journal(stack: Stack) -> bool:
    """As small as in the plan, of a type that has the setting which it varies: superblocks are told by such
    names."""
    system = stack.filesystem
    size = system.superblock.get("journal_size") if system and system.superblock else None
    return isinstance(size, int) and size <= _SMALL_JOURNAL


OFF_STRIPE = Evidence(
    plan="plans/alignment.toml",
    wrong="off the stripe",
    right="on it",
    is_wrong=_volume_off_stripe,
    differ=("stack.lvm",),
    shown=_PARTIAL_STRIPES,
    applies=_is_off_stripe,
)
"""What does not begin with a stripe. It is measured of volumes; a partition or an encrypted device moves what
lies on it just as far."""

GEOMETRY = Evidence(
    plan="plans/alignment.toml",
    wrong="not told of the stripe",
    right="told",
    is_wrong=_not_aligned,
    differ=tuple(
        f"filesystem.{key}" for key in ("geometry", "stride", "stripe_width", "sunit", "swidth", "stripe")
    ),
    shown=_PARTIAL_STRIPES,
    applies=_keeps_parity,
)
"""A file system that works with another stripe than the one below, or with none."""

BARRIERS_OFF = Evidence(
    plan="plans/barriers.toml",
    wrong="without barriers",
    right="with them",
    is_wrong=_without_barriers,
    differ=("filesystem.barrier", "stack.settings.write_cache"),
    shown=(
        Shown("operations_per_second", "tree", ("create",), "files/s"),
        Shown("flushes_per_fsync", "tree", ("create",), "flushes per fsync"),
    ),
)
"""Nothing flushes the device's cache: what that seems to win."""

READ_AHEAD = Evidence(
    plan="plans/read-ahead.toml",
    wrong="with {} of read-ahead",
    right="with {}",
    is_wrong=_little_read_ahead,
    differ=("stack.settings.read_ahead",),
    shown=(
        Shown("bytes_per_second", "stream", ("read",), "read"),
        Shown("requests_per_operation", "stream", ("read",), "requests per read"),
    ),
    named="stack.settings.read_ahead",
    applies=_reads_little_ahead,
)
"""Less read-ahead than the kernel's default."""

JOURNAL = Evidence(
    plan="plans/journal.toml",
    wrong="with a small journal",
    right="with mkfs's",
    is_wrong=_small_journal,
    differ=("filesystem.journal_size",),
    shown=(
        Shown("operations_per_second", "tree", ("create", "delete"), "files/s"),
        Shown("member_written_per_written", "tree", ("create",), "B written per B"),
    ),
    applies=_has_small_journal,
)
"""A journal much smaller than mkfs makes it today."""

ALL = (OFF_STRIPE, GEOMETRY, BARRIERS_OFF, READ_AHEAD, JOURNAL)
