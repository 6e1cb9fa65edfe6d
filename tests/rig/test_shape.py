"""Shapes of what the agent says: judged as a full validator of JSON Schema does, with the place named."""

from __future__ import annotations

import copy
import json
import math
import random
import subprocess
from typing import Any

import jsonschema
import pytest

from fsdyno.rig import Rig
from fsdyno.rig.shape import Shape
from tests.cli.fixtures import ROOT, double, real_agent
from tests.faults.liar import lie, places


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    return Rig([str(real_agent())], privileged=False).schema()


@pytest.fixture(scope="module")
def said(schemas: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What agents say, by the schema that holds for it: the real one, and the double's events."""
    rig = Rig([str(real_agent())], privileged=False)
    folder = tmp_path_factory.mktemp("double")
    spec = {
        "stack": {"devices": [{"file": {"size": 1 << 20}}]},
        "filesystem": {"type": "any"},
        "datasets": {"small": {"files": 1000, "size": 4096}},
        "phases": [{"mkfs": {}}, {"workload": {"tree": {"op": "create", "dataset": "small", "threads": 2}}}],
    }
    request = {"trial": {"trial": "t", "seed": 1, "spec": spec}}
    program = double(folder)
    done = subprocess.run(
        [str(program), "run"], input=json.dumps(request) + "\n", text=True, capture_output=True, cwd=ROOT,
        check=True,
    )  # fmt: skip
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {e["event"] for e in events} > {"hello", "built", "phase_end", "end"}
    return {"survey": [rig.survey()], "describe": [rig.describe()], "event": events}


def strange(value: Any) -> bool:
    """Numbers that JSON has no word for, or that fit no store: refused here, fine for a validator."""
    return any(
        (isinstance(c[k], float) and not math.isfinite(c[k]))
        or (isinstance(c[k], int) and abs(c[k]) >= 2**63)
        for c, k in places(value)
    )


@pytest.mark.parametrize("name", ["survey", "describe", "event"])
def test_judgements_are_those_of_a_full_validator(
    schemas: dict[str, Any], said: dict[str, list[Any]], name: str
) -> None:
    shape, validator = Shape(schemas[name]), jsonschema.Draft202012Validator(schemas[name])
    wrong = 0
    for value in said[name]:
        assert shape.flaw(value) is None
        for seed in range(400 // len(said[name]) + 10):
            twisted = copy.deepcopy(value)
            what = lie(twisted, random.Random(seed))
            if strange(twisted):
                assert shape.flaw(twisted) or validator.is_valid(twisted), what
                continue
            flaw = shape.flaw(twisted)
            assert (flaw is None) == validator.is_valid(twisted), (what, flaw)
            wrong += flaw is not None
    assert wrong > 50


def test_a_flaw_is_told_by_its_place(schemas: dict[str, Any], said: dict[str, list[Any]]) -> None:
    [survey] = copy.deepcopy(said["survey"])
    shape = Shape(schemas["survey"])
    survey["host"]["cpus"] = "two"
    assert shape.flaw(survey) == ".host.cpus: 'two' is no integer"
    del survey["host"]["cpus"]
    assert shape.flaw(survey) == ".host: `cpus` is missing"
    survey["filesystems"][1] = "ext3"
    assert shape.flaw(survey | {"host": said["survey"][0]["host"]}) == ".filesystems[1]: 'ext3' is no object"


def test_an_unknown_kind_of_event_and_further_fields_are_no_flaw(
    schemas: dict[str, Any], said: dict[str, list[Any]]
) -> None:
    shape = Shape(schemas["event"])
    hello = said["event"][0]
    assert shape.flaw({**hello, "event": "tea_break"}) is None
    assert shape.flaw({**hello, "mood": "good"}) is None
    assert shape.flaw({**hello, "pid": -1}) == ".pid: -1 is out of range"


def test_what_fits_no_store_is_refused() -> None:
    shape = Shape({"items": {"type": ["integer", "number"], "format": "uint64", "minimum": 0}})
    assert shape.flaw([0, 2**63 - 1]) is None
    for number in (2**63, math.inf, math.nan):
        assert shape.flaw([number])


@pytest.mark.parametrize(
    "schema",
    [
        {"required": -1},
        {"properties": []},
        {"type": 7},
        {"oneOf": "both"},
        {"$defs": []},
        {"$defs": {"Never": {"items": {"required": -1}}}},
    ],
)
def test_what_is_no_schema_is_known_before_anything_is_judged(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no schema"):
        Shape(schema)
