"""What a finding costs, as it was measured: campaigns of a store that have it right and wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Evidence:
    """Where the cost of a finding shows."""

    plan: str  # the ready plan that measures it, such as plans/alignment.toml
