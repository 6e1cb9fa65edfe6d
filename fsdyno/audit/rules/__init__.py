"""The rules, in the order of what they usually cost. A new one is a file here and a row in `TABLE`."""

from __future__ import annotations

from fsdyno.audit.rule import Rule
from fsdyno.audit.rules import partition_start

TABLE: tuple[Rule, ...] = (partition_start.RULE,)
