"""A campaign in guests through the command line: one boot for each round, all of it marked as emulated
where it was, and whole again after everything was killed in the middle.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fsdyno.errors import Exit
from fsdyno.rig import Rig
from fsdyno.store import Store
from tests.cli.fixtures import Fsdyno, real_agent
from tests.faults.traces import processes, until
from tests.guest.bench import guests, needs_guests, traces

PLAN = """\
question = "Which file system makes small files fastest?"
rounds = 2
[trial]
machine = {}
stack.devices = [{ file = { size = "320MiB", backing = "sparse" } }]
phases = [
  { mkfs = {} },
  { mount = {} },
  { name = "create", workload.tree = { op = "create", dataset = "small", sync = "file" } },
  { unmount = {} },
  { check = {} },
]
[trial.datasets]
small = { files = 50, size = "4K" }
[matrix]
filesystem = ["ext4", "xfs"]
[reference]
filesystem = "ext4"
"""
WHOLE = Counter(product((1, 2), range(2)))


@pytest.fixture
def fsdyno(tmp_path: Path) -> Iterator[Fsdyno]:
    """The command line with the real agent. The test ends with nothing left behind."""
    agent = real_agent()
    needs_guests(Rig([str(agent)], state=tmp_path / "state", privileged=False))
    (tmp_path / "plan.toml").write_text(PLAN)
    yield Fsdyno(tmp_path, agent)
    until(lambda: traces(tmp_path) == [], f"{traces(tmp_path)}")


def machines(fsdyno: Fsdyno) -> dict[tuple[int, int], dict[str, Any]]:
    """Facts of the guest that each trial ran in, by round and cell."""
    found = {}
    with Store.open(fsdyno.folder / "fsdyno.sqlite") as store:
        [campaign] = store.campaigns()
        trials = store.trials(campaign.id)
        assert Counter((t.round, t.cell) for t in trials) == WHOLE
        assert {t.outcome for t in trials} == {"ok"}
        for trial in trials:
            [found[trial.round, trial.cell]] = [
                event["facts"]
                for event in store.events(trial.id)
                if event["event"] == "built" and event["part"] == "machine"
            ]
    return found


def test_a_campaign_killed_in_its_second_round_is_whole_after_a_resume(fsdyno: Fsdyno) -> None:
    process = fsdyno.start("run", "plan.toml")
    assert process.stderr
    seen = 0
    while seen < 3:
        line = process.stderr.readline()
        assert line, "the campaign ended before its second round"
        seen += line.startswith("[")
    agents = processes(fsdyno.folder)
    running = [pid for agent in agents for pid in guests(agent)]
    assert agents and running
    for pid in (process.pid, *agents):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    # Nobody kills the guests: they die with their agent.
    until(lambda: not [t for t in traces(fsdyno.folder) if "/ledger/" not in t], "a guest lives on")

    done = fsdyno("run", "plan.toml", "--resume")
    assert done.returncode == Exit.OK, done.stderr
    ran = machines(fsdyno)
    boots = {number: {ran[number, cell]["boot"] for cell in range(2)} for number in (1, 2)}
    assert len(boots[1]) == len(boots[2]) == 1 and boots[1] != boots[2], "one boot for each round"
    for number in (1, 2):
        assert sorted(ran[number, cell]["fresh"] for cell in range(2)) == [False, True]

    answer = fsdyno("report").stdout
    emulated = {facts["accelerator"] for facts in ran.values()} == {"tcg"}
    assert ("emulated" in answer) is emulated, answer
    assert json.loads(fsdyno("report", "--json").stdout)
