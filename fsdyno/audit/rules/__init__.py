"""The rules, in the order of what they usually cost. A new one is a file here and a row in `TABLE`."""

from __future__ import annotations

from fsdyno.audit.rule import Rule
from fsdyno.audit.rules import (
    array_state,
    barriers_off,
    cache_without_flushes,
    discard,
    errors_noted,
    fullness,
    journal_size,
    mount_options,
    overdue_check,
    partition_start,
    read_ahead,
    scheduler,
    timers,
    write_cache_mixed,
)

TABLE: tuple[Rule, ...] = (
    barriers_off.RULE,
    cache_without_flushes.RULE,
    array_state.RULE,
    errors_noted.RULE,
    partition_start.RULE,
    read_ahead.RULE,
    mount_options.RULE,
    write_cache_mixed.RULE,
    scheduler.RULE,
    discard.RULE,
    fullness.RULE,
    journal_size.RULE,
    overdue_check.RULE,
    timers.RULE,
)
