"""Records with anything in them changed: judged, drawn and told, or refused as an error for people. Never a
traceback, whatever somebody sends."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fsdyno.audit import audit, read
from fsdyno.audit import record as records
from fsdyno.audit.data import data
from fsdyno.audit.show import show
from fsdyno.lines import rendered
from fsdyno.rig import Rig
from tests.audit.made import no_costs, record
from tests.audit.recorded import STACKS, load
from tests.cli.fixtures import real_agent

ORIGINALS = [record(), *(load(path) for path in STACKS)]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, -1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 10**30]),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.sampled_from(
        ["md0", "sda", "dm-0", "/dev/md0", "raid6", "raid", "write back", "\x1b[2J", "'; x", "lvm"]
    ),
    st.just([]),
    st.just({}),
    st.lists(st.integers(), max_size=3),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, found in inner:
        yield (*path, key)
        yield from places(found, (*path, key))


def inner(made: Any, key: Any) -> Any:
    """What an earlier change may have left of it."""
    if isinstance(made, dict):
        return made.get(key)
    return made[key] if isinstance(made, list) and isinstance(key, int) and key < len(made) else None


def change(made: Any, path: tuple[Any, ...], value: Any, how: str) -> None:
    for key in path[:-1]:
        made = inner(made, key)
    key = path[-1]
    if inner(made, key) is None:
        return
    if how == "remove":
        del made[key]
    elif how == "double" and isinstance(made, list):
        made.append(copy.deepcopy(made[key]))
    else:
        made[key] = value


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    found: dict[str, Any] = Rig([str(real_agent())], privileged=False).schema()["record"]
    return found


def told(made: Any, schema: dict[str, Any]) -> bool:
    """Whether it passes the door; then everything that is done with a record is done."""
    if records.flaw_of(made, schema):
        return False
    judged = audit(read(made))
    for width in (40, 80):
        rendered(show(judged, no_costs, width=width), colour=True)
    json.dumps(data(judged, no_costs))
    return True


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_record_is_judged_or_refused(schema: dict[str, Any], data: st.DataObject) -> None:
    made = copy.deepcopy(data.draw(st.sampled_from(ORIGINALS)))
    everywhere = list(places(made))
    for path in data.draw(st.lists(st.sampled_from(everywhere), min_size=1, max_size=4)):
        change(made, path, data.draw(ODD), data.draw(st.sampled_from(["set", "set", "remove", "double"])))
    told(made, schema)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_numbers_may_be_any_that_the_schema_allows(schema: dict[str, Any], data: st.DataObject) -> None:
    """Changes that pass the door, so that the rules are reached."""
    made = copy.deepcopy(data.draw(st.sampled_from(ORIGINALS)))
    numbers = [path for path in places(made) if is_number(made, path)]
    for path in data.draw(st.lists(st.sampled_from(numbers), min_size=1, max_size=6)):
        change(made, path, data.draw(st.sampled_from([0, 1, 511, 4096, 2**31, 2**62, 2**63 - 1])), "set")
    made["fsdyno_record"] = 1
    flaw = records.flaw_of(made, schema)
    assert flaw is None or "out of range" in flaw
    told(made, schema)


def is_number(made: Any, path: tuple[Any, ...]) -> bool:
    for key in path:
        made = made[key]
    return isinstance(made, int) and not isinstance(made, bool)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_what_is_missing_is_not_needed_by_any_rule(schema: dict[str, Any], data: st.DataObject) -> None:
    """Facts and attributes are there or not, as kernels are old or new."""
    made = copy.deepcopy(data.draw(st.sampled_from(ORIGINALS)))
    optional = [p for p in places(made) if len(p) == 4 and p[0] == "layers" and p[2] in ("facts", "queue")]
    for path in data.draw(st.lists(st.sampled_from(optional), max_size=40, unique=True)):
        change(made, path, None, "remove")
    assert told(made, schema)
