"""Campaigns on real loop devices and file systems: killed, interrupted, side by side. Nothing is lost,
nothing runs twice, nothing is left behind.
"""

from __future__ import annotations

import json
import os
import random
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

KILLS = 25  # of the campaign, and as many of the agent
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


def begun(fsdyno: Fsdyno) -> bool:
    file = fsdyno.folder / "fsdyno.sqlite"
    if not file.exists():
        return False
    with Store.open(file) as store:
        return bool(store.campaigns())


def until_first_trial(process: subprocess.Popen[str]) -> None:
    assert process.stderr
    while line := process.stderr.readline():
        if line.startswith("["):
            return
    raise AssertionError("the campaign ended before its first trial")


def agent_of(fsdyno: Fsdyno) -> int | None:
    """The process id of the agent that holds the rig."""
    state = str(fsdyno.folder / "state")
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if (
                b"run" in words
                and any(w.endswith(b"fsdyno-agent") for w in words)
                and state.encode() in words
            ):
                return int(entry.name)
    return None


def test_a_campaign_runs_and_leaves_nothing(fsdyno: Fsdyno) -> None:
    done = fsdyno("run", "plan.toml")
    assert done.returncode == 0, done.stderr
    assert trials(fsdyno) == ("complete", WHOLE)
    assert left_behind(fsdyno.folder) == []


def test_campaigns_killed_at_random_moments_resume_to_a_whole_one(fsdyno: Fsdyno) -> None:
    seed = time.time_ns()
    moments = random.Random(seed)
    for _ in range(KILLS):
        process = fsdyno.start("run", "plan.toml", "--quiet", *(["--resume"] if begun(fsdyno) else []))
        with suppress(subprocess.TimeoutExpired):
            process.wait(moments.uniform(0.2, 2.5))
        process.kill()
        process.communicate()
        settle(fsdyno)
        if begun(fsdyno) and trials(fsdyno)[0] == "complete":
            (fsdyno.folder / "fsdyno.sqlite").unlink()
    done = fsdyno("run", "plan.toml", *(["--resume"] if begun(fsdyno) else []))
    assert done.returncode == 0, (seed, done.stderr)
    assert trials(fsdyno) == ("complete", WHOLE), seed
    assert left_behind(fsdyno.folder) == []


def test_agents_killed_at_random_moments_lose_trials_but_no_campaign(fsdyno: Fsdyno) -> None:
    seed = time.time_ns()
    moments = random.Random(seed)
    kills = 0
    while kills < KILLS:
        process = fsdyno.start("run", "plan.toml", "--quiet", *(["--resume"] if begun(fsdyno) else []))
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(moments.uniform(0.2, 2.0))
            if kills < KILLS and (agent := agent_of(fsdyno)):
                with suppress(ProcessLookupError):
                    os.kill(agent, signal.SIGKILL)
                    kills += 1
        _, said = process.communicate()
        assert "Traceback" not in said
        # ok; some trials lost; or three lost in a row, or killed before it said hello
        assert process.returncode in (Exit.OK, Exit.INCOMPLETE, Exit.AGENT), (seed, said)
        settle(fsdyno)
        if begun(fsdyno) and trials(fsdyno)[0] == "complete":
            (fsdyno.folder / "fsdyno.sqlite").unlink()
    done = fsdyno("run", "plan.toml", *(["--resume"] if begun(fsdyno) else []))
    assert done.returncode == 0, (seed, done.stderr)
    assert trials(fsdyno) == ("complete", WHOLE), seed


def test_two_campaigns_at_once_are_one_too_many(fsdyno: Fsdyno) -> None:
    first = fsdyno.start("run", "plan.toml")
    until_first_trial(first)
    second = fsdyno("run", "plan.toml", "--store", "other.sqlite")
    assert second.returncode == Exit.BUSY, second.stderr
    with Store.open(fsdyno.folder / "other.sqlite") as store:
        assert store.campaigns() == []
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
