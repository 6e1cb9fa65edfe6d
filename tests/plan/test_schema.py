"""The schema walker gives the verdicts of a full JSON Schema validator, and the same numbers back."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fsdyno.plan.schema import KEYWORDS, Walker

GOOD: dict[str, Any] = {
    "stack": {
        "devices": [
            {"file": {"size": 1 << 30, "backing": "sparse"}},
            {"disk": {"path": "/dev/disk/by-id/x"}},
        ],
        "settings": {"read_ahead": 131072, "scheduler": "none", "write_cache": "write through"},
    },
    "filesystem": {"type": "ext4", "barrier": False, "block_size": 4096, "commit": 5},
    "datasets": {"small": {"files": 10, "size": 4096}},
    "phases": [
        {"mkfs": {}, "timeout": 30},
        {"mount": {}, "at": "rig"},
        {
            "name": "w",
            "workload": {"tree": {"op": "create", "dataset": "small", "threads": 2, "order": "random"}},
        },
        {"workload": {"random": {"op": "read", "dataset": "small", "runtime": 1.5, "depth": 8}}},
        {"remount": {"cold": True}},
        {"set": {"read_ahead": 0}},
        {"check": {"mode": "full"}},
    ],
    "timeout": 60.5,
}
# no null: TOML has none
ODD = [
    True,
    False,
    0,
    1,
    -1,
    2**32,
    2**64,
    1.0,
    1.5,
    -0.5,
    "",
    "full",
    "ext4",
    "xfs",
    "4K",
    [],
    [1],
    {},
    {"type": "xfs"},
]
FORMATS = jsonschema.FormatChecker()
for bits in (32, 64):
    FORMATS.checks(f"uint{bits}")(lambda v, top=2**bits: not isinstance(v, int) or v < top)
FORMATS.checks("bytes")(lambda v: not isinstance(v, int) or v < 2**64)


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [here]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*here, key))
    return found


@st.composite
def mutated(draw: Any) -> dict[str, Any]:
    """A good spec with up to three changes anywhere: other values, keys gone, renamed or added."""
    holder = {"spec": copy.deepcopy(GOOD)}
    for _ in range(draw(st.integers(0, 3))):
        where = draw(st.sampled_from(places(holder)[1:]))
        parent: Any = holder
        for key in where[:-1]:
            parent = parent[key]
        change = draw(st.sampled_from(["replace", "remove", "rename", "add"]))
        if change == "replace" or len(where) == 1:
            parent[where[-1]] = copy.deepcopy(draw(st.sampled_from(ODD)))
        elif change == "remove":
            del parent[where[-1]]
        elif change == "rename" and isinstance(parent, dict):
            parent[draw(st.sampled_from(["x", "size", "files", "mount", "type", "disk"]))] = parent.pop(
                where[-1]
            )
        elif isinstance(parent, dict):
            parent[draw(st.sampled_from(["y", "threads", "unmount", "name", "tree"]))] = copy.deepcopy(
                draw(st.sampled_from(ODD))
            )
    return holder


def plain(schema: Any) -> Any:
    """The same schema in plain JSON Schema: what the walker's own rules mean in it."""
    if isinstance(schema, list):
        return [plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: plain(value) for key, value in schema.items()}
    kinds = out.pop("x-exactly-one", None)
    if kinds:
        out["oneOf"] = [{"required": [kind]} for kind in kinds]
    return out


def strict(checker: Any, instance: Any) -> bool:
    return isinstance(instance, int) and not isinstance(instance, bool)


def validator(schema: dict[str, Any]) -> Any:
    base = jsonschema.Draft202012Validator
    checker = base.TYPE_CHECKER.redefine("integer", strict)  # 1.0 is no count of threads
    kind: Any = jsonschema.validators.extend(base, type_checker=checker)  # type: ignore[no-untyped-call]
    return kind(plain(schema), format_checker=FORMATS)


@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(mutated())
def test_same_verdict_as_a_full_validator(schema: dict[str, Any], holder: dict[str, Any]) -> None:
    spec = holder["spec"]
    walker = Walker(schema)
    checked = walker.check(spec)
    judge = validator(schema)
    # what a person may write instead of the wire's own form is judged in that form
    if walker.problems:
        assert not judge.is_valid(worded(spec))
    else:
        assert judge.is_valid(checked)
        assert judge.is_valid(worded(spec))


def worded(spec: Any) -> Any:
    """The spec with the shorthands written out: a word for a file system, a size with a unit."""
    spec = copy.deepcopy(spec)
    if not isinstance(spec, dict):
        return spec
    if isinstance(spec.get("filesystem"), str):
        spec["filesystem"] = {"type": spec["filesystem"]}
    return with_numbers(spec)


def with_numbers(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: with_numbers(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [with_numbers(v) for v in value]
    sizes = {"size", "read_ahead", "block_size", "record", "logical_block_size"}
    return 4096 if value == "4K" and key in sizes else value


def test_the_good_spec_is_good(schema: dict[str, Any]) -> None:
    walker = Walker(schema)
    checked = walker.check(GOOD)
    assert walker.problems == []
    assert validator(schema).is_valid(checked)
    assert validator(schema).is_valid(GOOD)


def test_checking_twice_changes_nothing(schema: dict[str, Any]) -> None:
    once = Walker(schema).check(GOOD)
    assert Walker(schema).check(once) == once


def test_defaults_are_filled_in_at_every_depth(schema: dict[str, Any]) -> None:
    checked = Walker(schema).check(GOOD)
    assert checked["stack"]["devices"][0]["file"]["logical_block_size"] == 512
    assert checked["datasets"]["small"]["files_per_directory"] == 1000
    assert checked["phases"][2]["workload"]["tree"]["sync"] == "end"
    assert json.dumps(checked)


def test_the_walker_knows_every_keyword_that_the_agent_uses(schema: dict[str, Any]) -> None:
    assert keywords(schema) <= KEYWORDS


def keywords(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(keywords, schema))
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            found = found.union(*map(keywords, value.values()))
        elif key not in ("default", "const", "enum", "examples", "required"):
            found |= keywords(value)
    return found


MIXED = {
    "type": "object",
    "properties": {
        "sync": {
            "oneOf": [
                {"type": "string", "enum": ["end", "file"]},
                {
                    "type": "object",
                    "properties": {"every": {"type": "integer"}},
                    "required": ["every"],
                    "additionalProperties": False,
                },
            ]
        },
        "commit": {"type": "number", "format": "seconds", "minimum": 1, "multipleOf": 1},
        "name": {"type": "string", "minLength": 1},
        "word": {"type": "string", "pattern": "^[a-z]"},
        "list": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "value": {"anyOf": [{"type": "integer", "format": "bytes"}, {"type": "boolean"}]},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "spec",
    [
        {"sync": "end"},
        {"sync": {"every": 4}},
        {"value": 1},
        {"value": True},
        {"value": "4K"},
        {"commit": "5s"},
    ],
)
def test_choices_that_mix_words_and_tables(spec: dict[str, Any]) -> None:
    walker = Walker(MIXED)
    checked = walker.check(spec)
    assert walker.problems == []
    assert jsonschema.Draft202012Validator(MIXED).is_valid(checked)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"sync": "files"}, 'unknown value "files"; did you mean "file"?'),
        ({"sync": "every"}, '"every" needs its own table'),
        ({"sync": {"evry": 4}}, 'unknown kind; did you mean "every"?'),
        ({"sync": 4}, "one of: end, file, every"),
        ({"value": []}, "expected a size in bytes"),
        ({"commit": 1.5}, "1.5 is not a multiple of 1"),
        ({"commit": "1500ms"}, "is not a multiple of 1"),
        ({"name": ""}, "is empty"),
        ({"word": "Ab"}, "is not of the form ^[a-z]"),
        ({"list": []}, "needs at least 1 element"),
    ],
)
def test_wrong_choices_say_what_is_possible(spec: dict[str, Any], message: str) -> None:
    walker = Walker(MIXED)
    walker.check(spec)
    assert [message in p.message for p in walker.problems] == [True], walker.problems


def test_no_file_system_is_named_in_the_package() -> None:
    """The agent's tables are the only place that knows file systems by name."""
    package = Path(__file__).parents[2] / "fsdyno" / "plan"
    names = ("ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs")
    guilty = [p.name for p in package.glob("*.py") if any(n in p.read_text().lower() for n in names)]
    assert guilty == []
