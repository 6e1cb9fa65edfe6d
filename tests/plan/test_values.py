"""Values that TOML allows and no plan means end as problems of the plan, with key and line."""

from __future__ import annotations

from typing import Any

import pytest

from fsdyno.errors import Exit
from fsdyno.plan.load import parse
from fsdyno.plan.problems import PlanError

HEAD = 'question = "q"\n'
TRIAL = "[trial]\nstack.devices = [{ file = { size = 1 } }]\nphases = [{ mkfs = {} }]\n"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (HEAD + "rounds = 100001\n" + TRIAL, 2, "rounds"),
        (HEAD + f"rounds = 1{'0' * 23}\n" + TRIAL, 2, "rounds"),
        (HEAD + "rounds = 2026-11-20\n" + TRIAL, 2, "rounds"),
        (HEAD + TRIAL + "timeout = inf\n", 5, "timeout"),
        (HEAD + TRIAL + "[trial.datasets]\na = { files = 1, size = nan }\n", 6, "size"),
        (HEAD + TRIAL + "[matrix]\nfilesystem = [12:00:00]\n", 6, "filesystem"),
        (HEAD + "deep = " + "[" * 400 + "]" * 400 + "\n", 2, "deep"),
        (HEAD + ".".join("a" * 2000) + " = 1\n" + TRIAL, 2, "a"),
        (HEAD + TRIAL + f"[matrix]\na = [{', '.join(map(str, range(2000)))}]\n", 6, "a"),
        (HEAD + TRIAL + "[matrix]\n" + "".join(f"{k} = {list(range(10))}\n" for k in "abcdef"), 5, "1000000"),
    ],
)
def test_each_is_told_with_its_place(
    text: str, line: int, said: str, schema: dict[str, Any], describe: dict[str, Any]
) -> None:
    with pytest.raises(PlanError) as caught:
        parse(text, "p.toml", schema=schema, describe=describe)
    assert caught.value.code == Exit.PLAN
    assert f"p.toml:{line}: " in str(caught.value) and said in str(caught.value)
