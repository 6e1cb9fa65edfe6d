"""The real agent's schema and tables: plans are judged by what the agent says, so are these tests."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fsdyno.plan import Plan, parse
from fsdyno.plan.problems import PlanError

ROOT = Path(__file__).parents[2]


def agent() -> Path | None:
    named = os.environ.get("FSDYNO_AGENT")
    if named:
        return Path(named)
    built = [
        path
        for profile in ("release", "debug")
        for path in [*ROOT.glob(f"target/*/{profile}/fsdyno-agent"), ROOT / "target" / profile / "fsdyno-agent"]
        if path.is_file()
    ]
    return max(built, key=lambda path: path.stat().st_mtime, default=None)


def ask(verb: str) -> dict[str, Any]:
    binary = agent()
    if binary is None:
        pytest.skip("the agent is not built: run `make build`, or set FSDYNO_AGENT")
    answer = subprocess.run([binary, verb], capture_output=True, check=True, text=True)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.fixture(scope="session")
def schema() -> dict[str, Any]:
    found: dict[str, Any] = ask("schema")["trial"]
    return found


@pytest.fixture(scope="session")
def describe() -> dict[str, Any]:
    return ask("describe")


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
