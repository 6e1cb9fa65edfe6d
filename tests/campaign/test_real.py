"""Campaigns on real loop devices and file systems: whole, interrupted, side by side. Nothing is lost,
nothing runs twice, nothing is left behind. Kills: tests/faults/test_killed.py.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from fsdyno.errors import Exit
from fsdyno.store import Store
from tests.cli.fixtures import PLAN, Fsdyno, real_agent

pytestmark = pytest.mark.root

ROUNDS = 4
CELLS = 3
WHOLE = Counter(product(range(1, ROUNDS + 1), range(CELLS)))


@pytest.fixture
def fsdyno(tmp_path: Path) -> Iterator[Fsdyno]:
    if os.geteuid() != 0:
        pytest.skip("needs root: makes loop devices and mounts them")
    (tmp_path / "plan.toml").write_text(PLAN.replace("rounds = 2", f"rounds = {ROUNDS}"))
    command = Fsdyno(tmp_path, real_agent())
    yield command
    settle(command)


def settle(fsdyno: Fsdyno) -> None:
    """Waits until no agent lives on this rig and what dead ones left is undone."""
    deadline = time.monotonic() + 60
    while True:
        done = fsdyno("clean", "--json")
        answer = json.loads(done.stdout)
        assert answer["failed"] == [], answer
        if answer["live"] == 0 and left_behind(fsdyno.folder) == []:
            return
        assert time.monotonic() < deadline, (answer, left_behind(fsdyno.folder))
        time.sleep(0.1)


def left_behind(folder: Path) -> list[str]:
    """Mounts, loop devices, files and ledgers that point below the folder's state."""
    state = str(folder / "state")
    found = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if state in line]
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if state in (text := backing.read_text()):
                found.append(f"{backing.parent.parent.name} on {text.strip()}")
    for kind in ("work", "ledger"):
        found += map(str, (folder / "state" / kind).glob("*"))
    return found


def trials(fsdyno: Fsdyno) -> tuple[str, Counter[tuple[int, int]]]:
    """The campaign's status, and how often each (round, cell) has an ok trial that counts."""
    with Store.open(fsdyno.folder / "fsdyno.sqlite") as store:
        [campaign] = store.campaigns()
        counted = [t for t in store.trials(campaign.id) if t.outcome == "ok"]
        return campaign.status, Counter((t.round, t.cell) for t in counted)


def until_first_trial(process: subprocess.Popen[str]) -> None:
    assert process.stderr
    while line := process.stderr.readline():
        if line.startswith("["):
            return
    raise AssertionError("the campaign ended before its first trial")


def test_a_campaign_runs_and_leaves_nothing(fsdyno: Fsdyno) -> None:
    done = fsdyno("run", "plan.toml")
    assert done.returncode == 0, done.stderr
    assert trials(fsdyno) == ("complete", WHOLE)
    assert left_behind(fsdyno.folder) == []


def test_two_campaigns_at_once_are_one_too_many(fsdyno: Fsdyno) -> None:
    first = fsdyno.start("run", "plan.toml")
    until_first_trial(first)
    second = fsdyno("run", "plan.toml", "--store", "other.sqlite")
    assert second.returncode == Exit.BUSY, second.stderr
    assert not (fsdyno.folder / "other.sqlite").exists(), "the second one never began"
    first.communicate()
    assert first.returncode == 0
    assert trials(fsdyno) == ("complete", WHOLE), "the first one was not disturbed"


def test_ctrl_c_takes_the_stack_down_and_the_advice_resumes(fsdyno: Fsdyno) -> None:
    process = fsdyno.start("run", "plan.toml")
    until_first_trial(process)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == Exit.INTERRUPTED, said
    assert left_behind(fsdyno.folder) == []
    [advice] = re.findall(r"go on with: fsdyno (.*)", said)
    assert fsdyno(*advice.split()).returncode == 0
    assert trials(fsdyno) == ("complete", WHOLE)
