"""Every rule on every recorded stack: it finds something exactly in those that it names in `caught`. So each
wrong stack is caught by the rules that it was built for and by no other, and each right one is clean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdyno.audit import audit, read
from fsdyno.audit import record as records
from fsdyno.audit.data import data
from fsdyno.audit.rule import Rule
from fsdyno.audit.rules import TABLE
from fsdyno.rig import Rig
from tests.audit.made import no_costs
from tests.audit.recorded import STACKS, load
from tests.cli.fixtures import real_agent

NAMES = [path.stem for path in STACKS]


@pytest.mark.parametrize("stack", STACKS, ids=NAMES)
@pytest.mark.parametrize("rule", TABLE, ids=lambda rule: rule.name)
def test_a_rule_finds_what_it_says_that_it_catches_and_nothing_else(rule: Rule, stack: Path) -> None:
    findings = list(rule.judge(read(load(stack))))
    assert bool(findings) == (stack.stem in rule.caught), findings


def test_every_stack_that_a_rule_names_is_recorded() -> None:
    named = {name for rule in TABLE for name in rule.caught}
    assert named <= set(NAMES), "record them with tests/audit/build"


def test_ten_right_stacks_are_recorded() -> None:
    assert sum(name.startswith("right-") for name in NAMES) >= 10


@pytest.mark.parametrize("stack", STACKS, ids=NAMES)
def test_records_are_as_the_agent_of_this_checkout_writes_them(stack: Path) -> None:
    schema = Rig([str(real_agent())], privileged=False).schema()["record"]
    assert records.load(stack, lambda: schema) == load(stack)


@pytest.mark.parametrize("stack", STACKS, ids=NAMES)
def test_a_stack_that_is_saved_and_read_again_is_judged_the_same(tmp_path: Path, stack: Path) -> None:
    first = data(audit(read(load(stack))), no_costs)
    records.save(load(stack), tmp_path / "r.json")
    assert data(audit(read(load(tmp_path / "r.json"))), no_costs) == first
    assert json.loads(json.dumps(first)) == first
