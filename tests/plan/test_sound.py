"""A damaged schema is the agent's fault, known before any plan is read by it."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

from fsdyno.errors import Exit, UserError
from fsdyno.plan import parse
from fsdyno.plan.sound import assert_sound
from tests.cli.fixtures import PLAN
from tests.faults.liar import lie

Schema = dict[str, Any]


def test_the_agents_own_schema_is_sound(schema: Schema) -> None:
    assert_sound(schema)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda s: s["properties"].pop("phases"), "`phases`"),
        (lambda s: s["$defs"].pop("Stack"), "trial.stack refers to nothing"),
        (lambda s: s["$defs"].update(Stack={"$ref": "#/$defs/Stack"}), "trial.stack refers to itself"),
        (lambda s: s["properties"].update(stack=7), "trial.stack is no object"),
        (lambda s: s["properties"]["timeout"].update(type="duration"), "trial.timeout: unknown type"),
    ],
)
def test_each_damage_is_told_with_its_place(
    schema: Schema, damage: Callable[[Schema], Any], said: str
) -> None:
    damaged = copy.deepcopy(schema)
    damage(damaged)
    with pytest.raises(UserError) as caught:
        assert_sound(damaged)
    assert caught.value.code == Exit.AGENT
    assert said in caught.value.message


@pytest.mark.parametrize("seed", range(150))
def test_one_lie_anywhere_in_it_never_ends_in_a_traceback(
    schema: Schema, describe: Schema, seed: int
) -> None:
    damaged = copy.deepcopy(schema)
    lie(damaged, random.Random(seed))
    try:
        parse(PLAN, "plan.toml", schema=damaged, describe=describe)
    except UserError as error:
        assert error.code in (Exit.AGENT, Exit.PLAN)
