"""A campaign killed at any moment loses nothing that was complete, and resumes to a whole one."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import product
from pathlib import Path

from fsdyno.store import Store
from tests.campaign.child import ROUNDS

KILLS = 10


def child(store: Path, folder: Path, begun: bool) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "tests.campaign.child", str(store), str(folder)]
    return subprocess.Popen([*argv, "resume"] if begun else argv)


def complete_rounds(store: Path) -> dict[int, set[str]] | None:
    """Trials of each complete round; None if no campaign was begun."""
    if not store.exists():
        return None
    with Store.open(store) as opened:
        if not opened.campaigns():
            return None
        [campaign] = opened.campaigns()
        trials = opened.trials(campaign.id)
        return {r: {t.id for t in trials if t.round == r} for r in opened.complete_rounds(campaign.id)}


def test_sigkill_at_random_moments_loses_no_round_and_repeats_none(tmp_path: Path) -> None:
    seed = time.time_ns()
    moments = random.Random(seed)
    store = tmp_path / "s.sqlite"
    before: dict[int, set[str]] | None = None
    for _ in range(KILLS):
        process = child(store, tmp_path, begun=before is not None)
        with suppress(subprocess.TimeoutExpired):
            process.wait(moments.uniform(0.3, 1.5))
        process.kill()
        process.wait()
        after = complete_rounds(store)
        for number, trials in (before or {}).items():
            assert after and after[number] == trials, f"complete round {number} ran again (seed {seed})"
        before = after
        if after and len(after) == ROUNDS:
            break
    if not before or len(before) < ROUNDS:
        assert child(store, tmp_path, begun=before is not None).wait() == 0
    with Store.open(store) as opened:
        [campaign] = opened.campaigns()
        turns = Counter((t.round, t.cell) for t in opened.trials(campaign.id))
        assert campaign.status == "complete"
    assert turns == Counter(product(range(1, ROUNDS + 1), range(3))), f"seed {seed}"
