"""One trial, told whole."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fsdyno.errors import UserError
from fsdyno.report import show
from fsdyno.store import Store
from tests.report.scenes import quickstart
from tests.store.fixtures import phase_end, record, start


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    path = tmp_path_factory.mktemp("show") / "s.sqlite"
    quickstart(path, rounds=2)
    return Store.open(path)


def trial_of(store: Store, cell: int, rnd: int) -> str:
    return next(t.id for t in store.trials(store.campaign().id) if (t.cell, t.round) == (cell, rnd))


def test_everything_is_told(store: Store) -> None:
    told = show.text(store, trial_of(store, 4, 2), width=200)
    for word in (
        "btrfs, round 2",
        "/usr/sbin/mkfs.btrfs -F /dev/loop0",
        "exit 0: ok",
        "mount_options = rw,relatime",
        "20000 × create, 78.1 MiB, median",
        "2 flushes",
        "kernel: <4>btrfs: something to look at",
        "! stolen time: 8 % of the CPU time was stolen, limit 5 %",
        "to take the stack down",
    ):
        assert word in told


def test_what_tools_printed_is_told_on_demand(store: Store) -> None:
    trial = trial_of(store, 2, 1)
    assert "| mkfs for ext4" not in show.text(store, trial)
    assert "| mkfs for ext4" in show.text(store, trial, output=True)


def test_a_phase_that_does_not_apply_says_why(store: Store) -> None:
    assert "not applicable: no device, nothing to do" in show.text(store, trial_of(store, 5, 1))


def test_a_prefix_of_the_id_is_enough(store: Store) -> None:
    trial = trial_of(store, 0, 1)
    assert show.text(store, trial[:13]) == show.text(store, trial)
    with pytest.raises(UserError, match="no trial 'zz'"):
        show.text(store, "zz")


def test_the_shell_form_is_a_script(store: Store) -> None:
    script = show.shell(store, trial_of(store, 3, 1))
    assert script.startswith("#!/usr/bin/env bash\n")
    assert script.index("mkfs.xfs $DEV") < script.index("mount $DEV $MNT")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_a_trial_without_commands_says_so(store: Store, tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite", create=True) as opened:
        trial = record(
            opened, start(opened, ["a"]), 0, 1, [phase_end(0, "mkfs", "mkfs", 1.0)], outcome="lost"
        )
        with pytest.raises(UserError, match="left no commands: it ended lost"):
            show.shell(opened, trial)
        assert "outcome lost" in show.text(opened, trial)


def test_the_data_form_has_the_events_as_they_came(store: Store) -> None:
    trial = trial_of(store, 3, 1)
    data = json.loads(json.dumps(show.data(store, trial)))
    assert data["events"] == store.events(trial)
    assert data["trial"]["id"] == trial
    assert data["cell"]["name"] == "xfs"
    assert {"phase": "create", "point": {}, "metric": "wall_seconds"}.items() <= next(
        s for s in data["samples"] if s["phase"] == "create" and s["metric"] == "wall_seconds"
    ).items()
    assert data["shell"][0]["phase"] == "mkfs"


@pytest.mark.parametrize(("last", "code"), [("true", 0), ("(exit 7)", 7)])
def test_the_script_stops_at_a_failure_and_always_cleans_up(tmp_path: Path, last: str, code: int) -> None:
    """The steps' clean-up may meet a command that fails, such as an umount of what is not mounted."""
    done = tmp_path / "cleaned"
    steps = [
        {"phase": "device", "command": f"trap 'false; touch {done}' EXIT"},
        {"phase": "check", "command": last},
        {"phase": "after", "command": f"touch {tmp_path / 'went-on'}"},
    ]
    end = {"event": "end", "outcome": "ok", "flags": [], "wall": 1.0, "teardown": 0.1, "shell": steps}
    with Store.open(tmp_path / "s.sqlite", create=True) as opened:
        script = show.shell(opened, record(opened, start(opened, ["a"]), 0, 1, [end]))
    run = subprocess.run(["bash"], input=script, text=True, check=False)
    assert run.returncode == code
    assert done.exists()
    assert (tmp_path / "went-on").exists() == (code == 0)
