"""The rules, in the order of what they usually cost. A new one is a file here and a row in `TABLE`."""

from __future__ import annotations

from fsdyno.audit.rule import Rule
from fsdyno.audit.rules import (
    alignment_offset,
    array_state,
    barriers_off,
    cache_without_flushes,
    crypt_start,
    discard,
    errors_noted,
    extents,
    fullness,
    journal_size,
    md_data_offset,
    members_differ,
    mount_options,
    optimal_io_size,
    overdue_check,
    partition_start,
    pv_start,
    read_ahead,
    scheduler,
    sector_emulation,
    superblock_geometry,
    timers,
)

TABLE: tuple[Rule, ...] = (
    barriers_off.RULE,
    cache_without_flushes.RULE,
    array_state.RULE,
    errors_noted.RULE,
    extents.RULE,
    partition_start.RULE,
    pv_start.RULE,
    crypt_start.RULE,
    superblock_geometry.RULE,
    md_data_offset.RULE,
    alignment_offset.RULE,
    optimal_io_size.RULE,
    sector_emulation.RULE,
    read_ahead.RULE,
    mount_options.RULE,
    members_differ.RULE,
    scheduler.RULE,
    discard.RULE,
    fullness.RULE,
    journal_size.RULE,
    overdue_check.RULE,
    timers.RULE,
)
