"""The record: campaigns, configurations, trials, events and samples in one SQLite file (design.md §7).

    with Store.open("fsdyno.sqlite", create=True) as store:
        campaign = store.start_campaign(...)
        store.record_trial(campaign, ...)      # one transaction each
        store.finish(campaign, "complete")

SQL lives in this room only. Every error is a `UserError` with `Exit.STORE`, except that an artefact
which is not what its digest says is the agent's fault (`Exit.AGENT`).
"""

from __future__ import annotations

from fsdyno.store.deriving import where_hash
from fsdyno.store.records import CampaignInfo, Cell, Metric, PhaseNote, Quantity, Trial, canonical
from fsdyno.store.writing import Store

DEFAULT_PATH = "fsdyno.sqlite"  # in the current folder, unless --store names another

__all__ = [
    "DEFAULT_PATH", "CampaignInfo", "Cell", "Metric", "PhaseNote", "Quantity", "Store", "Trial", "canonical",
    "where_hash",
]  # fmt: skip
