"""What all tests share: generated cases are the same in each run, so that a failure is of the change at hand.
`FSDYNO_FUZZ=1 pytest …` looks for new ones."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True)
if not os.environ.get("FSDYNO_FUZZ"):
    settings.load_profile("same")
