"""A folder of right plans and one of wrong ones: adding a case is adding a file.

A right plan says in its first comments how many cells and points it has; a wrong one the errors that it
must get, all of them, each with its line (`# error: LINE: text`, the text's beginning).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fsdyno.errors import Exit
from fsdyno.plan import PlanError, load, parse, rounds

HERE = Path(__file__).parent
READY = sorted((HERE.parents[1] / "plans").glob("*.toml"))


@pytest.mark.parametrize("path", sorted((HERE / "good").glob("*.toml")), ids=lambda p: p.stem)
def test_good(path: Path, schema: dict[str, Any], describe: dict[str, Any]) -> None:
    plan = load(path, schema=schema, describe=describe)
    told = dict(re.findall(r"^# (cells|points): (\d+)$", plan.text, re.M))
    assert {"cells": str(len(plan.cells)), "points": str(len(plan.points))} == told


@pytest.mark.parametrize("path", sorted((HERE / "bad").glob("*.toml")), ids=lambda p: p.stem)
def test_bad(path: Path, schema: dict[str, Any], describe: dict[str, Any]) -> None:
    expected = re.findall(r"^# error: (.*)$", path.read_text(), re.M)
    assert expected, "say which errors the plan must get"
    with pytest.raises(PlanError) as caught:
        load(path, schema=schema, describe=describe)
    assert caught.value.code is Exit.PLAN
    told = [line.removeprefix(f"{path}:").strip() for line in str(caught.value).splitlines()]
    assert len(told) == len(expected), told
    for line, start in zip(told, expected, strict=True):
        assert line.startswith(start)


@pytest.mark.parametrize("path", READY, ids=lambda p: p.stem)
def test_every_ready_plan_can_be_run(path: Path, schema: dict[str, Any], describe: dict[str, Any]) -> None:
    plan = load(path, schema=schema, describe=describe)
    assert plan.rounds >= 6, "a ready plan must be able to come to a verdict"
    assert plan.reference
    assert len(rounds(plan, 1, plan.rounds)) == plan.rounds


def test_the_plan_in_the_manual_is_right(schema: dict[str, Any], describe: dict[str, Any]) -> None:
    page = (HERE.parents[1] / "docs" / "plan.md").read_text()
    text = re.findall(r"```toml\n(.*?)```", page, re.S)[0]
    plan = parse(text, "plan.toml", schema=schema, describe=describe)
    assert ([c.name for c in plan.cells], len(plan.points)) == (["ext4", "xfs", "ext4 nobarrier"], 4)
    told = re.findall(r"```\n(plan.toml:.*?)\n```", page, re.S)[0]
    with pytest.raises(PlanError) as caught:
        parse(
            text.replace('"create", dataset', '"create", thread = 2, dataset'),
            "plan.toml",
            schema=schema,
            describe=describe,
        )
    assert str(caught.value) == told
