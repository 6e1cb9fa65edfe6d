"""With whose rights the agent runs: through sudo where trials need root, which those in guests do not."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fsdyno.errors import Exit, UserError
from fsdyno.rig import Rig
from fsdyno.store import Store
from tests.campaign import bench
from tests.campaign.test_place import NO, Survey, plan, survey

# Says what it was asked to start, marks what it started as root's, and starts it.
SUDO = """#!/bin/sh
echo "$*" >> {log}
shift 2
FSDYNO_TEST_ROOT=1 exec "$@"
"""

# An agent whose survey depends on its rights.
AGENT = """#!/bin/sh
echo "${{FSDYNO_TEST_ROOT:-0}} $*" >> {log}
exec {python} -m fsdyno.rig.double --survey {folder}/survey.${{FSDYNO_TEST_ROOT:-0}} "$@"
"""


@dataclasses.dataclass
class Machine:
    """A machine on which sudo asks no password, and what was started on it."""

    folder: Path

    def rig(self, of_root: Survey, of_caller: Survey | None = None) -> Rig:
        """Its rig, whose surveys are these."""
        (self.folder / "survey.1").write_text(json.dumps(of_root))
        (self.folder / "survey.0").write_text(json.dumps(of_caller or of_root))
        return Rig([str(self.folder / "agent")], limits=bench.LIMITS)

    def started(self) -> list[tuple[str, bool]]:
        """Verbs, each with whether it was run as root."""
        lines = (self.folder / "agent.log").read_text().splitlines()
        return [(line.split()[-1], line.startswith("1")) for line in lines]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name, text in (("sudo", SUDO), ("agent", AGENT)):
        words = {"log": tmp_path / f"{name}.log", "folder": tmp_path, "python": sys.executable}
        (tmp_path / name).write_text(text.format(**words))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    return Machine(tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "s.sqlite", create=True) as opened:
        yield opened


Run = Callable[..., Any]


@pytest.fixture
def run(store: Store) -> Run:
    return lambda rig, **options: bench.run(
        dataclasses.replace(plan(), rounds=1), rig, store, bench.Notebook(), **options
    )


def test_what_runs_natively_is_reached_through_sudo(machine: Machine, run: Run) -> None:
    assert run(machine.rig(survey("abg", "abg"))).exit == Exit.OK
    assert ("run", True) in machine.started()
    assert all(root for _, root in machine.started())


@pytest.mark.parametrize(("native", "asked"), [("ab", None), ("abg", "guest")])
def test_guests_belong_to_whoever_calls(machine: Machine, run: Run, native: str, asked: str | None) -> None:
    assert run(machine.rig(survey(native, "abg")), place=asked).exit == Exit.OK
    runs = [root for verb, root in machine.started() if verb == "run"]
    assert runs and not any(runs)


def test_a_guest_is_also_the_callers_after_its_agent_died(machine: Machine, store: Store) -> None:
    rig = machine.rig(survey("ab", "abg"))
    rig._command += ["--behave", "dies@1"]
    made = dataclasses.replace(plan(), rounds=1)
    outcome = bench.run(made, rig, store, bench.Notebook())
    assert outcome.counts == {"ok": 2, "lost": 1}
    runs = [root for verb, root in machine.started() if verb == "run"]
    assert len(runs) == 2 and not any(runs)
    assert ("clean", True) not in machine.started()


def test_the_callers_own_survey_says_what_can_run(machine: Machine, run: Run, store: Store) -> None:
    outcome = run(machine.rig(survey("ab", "abg"), survey("", "ab")))
    found = store.campaign(outcome.campaign)
    assert [cell.excluded for cell in found.cells] == [None, None, "unsupported"]
    assert found.cells[2].reason == NO["reason"]


def test_the_callers_own_folders_must_have_the_room(machine: Machine, run: Run, store: Store) -> None:
    small = survey("ab", "abg")
    small["folders"]["free"] = 1 << 10
    with pytest.raises(UserError, match="the plan needs") as caught:
        run(machine.rig(survey("ab", "abg"), small))
    assert caught.value.code == Exit.CANNOT and store.campaigns() == []


@pytest.mark.parametrize("native", ["ab", "abg"])
def test_whoever_is_root_already_stays_root(
    machine: Machine, run: Run, monkeypatch: pytest.MonkeyPatch, native: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert run(machine.rig(survey(native, "abg"))).exit == Exit.OK
    assert not (machine.folder / "sudo.log").exists()


def test_what_both_kinds_of_agents_left_is_undone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FSDYNO_STATE", raising=False)
    rig = machine.rig(survey("abg", "abg"))
    nothing: dict[str, Any] = {"undone": [], "left": [], "failed": [], "live": 0}
    assert rig.clean_all() == nothing
    assert [root for verb, root in machine.started() if verb == "clean"] == [True, False]


def test_a_folder_that_is_named_is_cleaned_once(machine: Machine) -> None:
    machine.rig(survey("abg", "abg"))
    Rig([str(machine.folder / "agent")], state=machine.folder / "state").clean_all()
    assert [root for verb, root in machine.started() if verb == "clean"] == [True]
