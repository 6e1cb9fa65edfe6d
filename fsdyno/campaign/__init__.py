"""Campaigns: all rounds of a plan on a rig, in random order, resumable after any interruption.

This room decides what runs when and what to do when it goes wrong. It measures nothing, computes no
statistics, and writes to the store between trials only.
"""

from __future__ import annotations

from fsdyno.campaign.progress import Header, Progress, Step, Tally
from fsdyno.campaign.run import Options, Outcome, run_campaign

__all__ = ["Header", "Options", "Outcome", "Progress", "Step", "Tally", "run_campaign"]
