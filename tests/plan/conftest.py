"""The real agent's schema and tables: plans are judged by what the agent says, so are these tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fsdyno.errors import UserError
from fsdyno.plan import Plan, parse
from fsdyno.plan.problems import PlanError
from fsdyno.rig import Rig
from fsdyno.rig.binary import find_agent
from tests.cli.fixtures import without_agent

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def rig() -> Rig:
    """The agent as the program finds it; else this checkout's debug build."""
    try:
        find_agent()
    except UserError as error:
        built = [*ROOT.glob("target/*/debug/fsdyno-agent"), ROOT / "target" / "debug" / "fsdyno-agent"]
        found = next((path for path in built if path.is_file()), None)
        if found is None:
            without_agent(str(error))
        return Rig([str(found)], privileged=False)
    return Rig(privileged=False)


@pytest.fixture(scope="session")
def schema(rig: Rig) -> dict[str, Any]:
    found: dict[str, Any] = rig.schema()["trial"]
    return found


@pytest.fixture(scope="session")
def describe(rig: Rig) -> dict[str, Any]:
    return rig.describe()


@pytest.fixture(scope="session")
def plan_of(schema: dict[str, Any], describe: dict[str, Any]) -> Callable[[str], Plan]:
    """Reads a plan text."""
    return lambda text: parse(text, "plan.toml", schema=schema, describe=describe)


@pytest.fixture(scope="session")
def errors_of(schema: dict[str, Any], describe: dict[str, Any]) -> Callable[[str], list[str]]:
    """The error lines that a plan text gets; empty if it is right."""

    def errors(text: str) -> list[str]:
        try:
            parse(text, "plan.toml", schema=schema, describe=describe)
        except PlanError as error:
            return str(error).splitlines()
        return []

    return errors
