"""An agent that tells one lie somewhere, in the right grammar: whatever it says, fsdyno ends with an exit
code that blames the agent, or takes no notice; it never stumbles over it. No root needed.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from fsdyno.errors import Exit
from fsdyno.store import Store
from tests.cli.fixtures import PLAN, ROOT, Fsdyno, real_agent

SEEDS = {"schema": range(6), "survey": range(6), "describe": range(3), "run": range(15)}
MAY_BE = {
    "schema": {Exit.OK, Exit.AGENT, Exit.PLAN},
    "survey": {Exit.OK, Exit.AGENT, Exit.CANNOT},  # it may say, in the right form, that nothing works
    "describe": {Exit.OK, Exit.AGENT, Exit.PLAN},
    "run": {Exit.OK, Exit.INCOMPLETE, Exit.AGENT, Exit.TEARDOWN},
}


@pytest.mark.parametrize(("verb", "seed"), [(verb, seed) for verb, seeds in SEEDS.items() for seed in seeds])
def test_one_lie_is_the_agents_fault_or_harmless(tmp_path: Path, verb: str, seed: int) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    lies = tmp_path / "lies"
    words = [sys.executable, "-m", "tests.faults.liar", str(seed), verb, str(real_agent())]
    program = tmp_path / "agent"
    program.write_text(f'#!/bin/sh\ncd {shlex.quote(str(ROOT))}\nexec {shlex.join(words)} "$@" 2>>{lies}\n')
    program.chmod(0o755)
    fsdyno = Fsdyno(tmp_path, program)
    done = fsdyno("run", "plan.toml")
    told = lies.read_text() if lies.exists() else "none"
    assert done.returncode in MAY_BE[verb], (told, done.stderr)
    if not (tmp_path / "fsdyno.sqlite").exists():
        return
    with Store.open(tmp_path / "fsdyno.sqlite") as store:
        if not store.campaigns():
            return
        trials = store.trials(store.campaign().id)
    for command in (["report"], ["report", "--html", "r.html"], ["show", trials[0].id]):
        shown = fsdyno(*command)
        assert shown.returncode == Exit.OK, (told, shown.stderr)


@pytest.mark.parametrize("answer", ["", "{}", "[]", "yes\\n{}", '{"protocol": 2}'])
@pytest.mark.parametrize("verb", ["survey", "describe", "schema", "clean"])
def test_an_answer_that_is_none_is_the_agents_fault(tmp_path: Path, verb: str, answer: str) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    program = tmp_path / "agent"
    lines = ["#!/bin/sh", f'case " $* " in *" {verb} "*) printf %b {shlex.quote(answer)}; exit 0;; esac']
    program.write_text("\n".join([*lines, f'exec {real_agent()} "$@"']) + "\n")
    program.chmod(0o755)
    done = Fsdyno(tmp_path, program)(*(["clean"] if verb == "clean" else ["run", "plan.toml"]))
    assert done.returncode == Exit.AGENT, done.stderr
    assert "agent" in done.stderr
