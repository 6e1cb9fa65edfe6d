"""The five studies can be said in the frozen types: everything in their sketches is valid but the keys
and kinds listed as coming later, and the numbers of cells and points are the studies' own."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from fsdyno.plan.load import read
from fsdyno.plan.problems import show_path

SKETCHES = Path(__file__).parents[2] / "plans" / "sketches"
LATER = tomllib.loads((SKETCHES / "later.toml").read_text())["later"]
NAMES = sorted(path.name for path in SKETCHES.glob("*.toml") if path.name != "later.toml")

# cells and points, from the studies
SIZES = {
    "fsi.toml": (14, 8),  # 14 configurations, 1 to 8 threads
    "tsuna.toml": (10, 6 * 7),  # two file systems, allocation groups for one of them; modes × threads
    "lowe-trees.toml": (6, 0),  # the six columns of the tables
    "lowe-bonnie.toml": (6, 7 * 3),  # read-ahead × block size
    "lowe-fsck.toml": (3, 0),
    "martin-bonnie.toml": (2 * 2 * 2, 0),  # file system × aligned × LVM
    "martin-iozone.toml": (2 * 2, 14 * 13 - sum(range(1, 9))),  # the records that fit into the file
    "martin-grow.toml": (3, 0),
    "layton.toml": (13, 3),  # 2 × 2 × 3 and the one with 415 million files
}


@pytest.mark.parametrize("name", NAMES)
def test_a_sketch_is_valid_but_for_what_comes_later(
    name: str, schema: dict[str, Any], describe: dict[str, Any]
) -> None:
    plan, problems = read((SKETCHES / name).read_text(), name, schema=schema, describe=describe)
    listed = {entry["at"] for entry in LATER if entry["plan"] == name}
    found = {show_path(p.path) for p in problems if p.kind == "unknown"}
    assert [p.at(name) for p in problems if p.kind != "unknown"] == []
    assert found - listed == set(), "wrong, or to be listed in later.toml"
    assert listed - found == set(), "known by now: remove it from later.toml"
    assert plan is not None
    assert (len(plan.cells), len(plan.points)) == SIZES[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_sketch_expands_to_one_flat_spec_with_every_point(
    name: str, schema: dict[str, Any], describe: dict[str, Any]
) -> None:
    plan, _ = read((SKETCHES / name).read_text(), name, schema=schema, describe=describe)
    assert plan is not None
    for cell in plan.cells:
        flat = cell.expand(range(len(plan.points)))
        start, stop = cell.span
        once = len(cell.spec["phases"]) - (stop - start)
        assert len(flat["phases"]) == once + (stop - start) * len(plan.points)


def test_every_entry_names_a_sketch() -> None:
    assert {entry["plan"] for entry in LATER} <= set(NAMES)
    assert set(SIZES) == set(NAMES)


def test_a_sketch_is_compared_at_each_point_with_its_reference(
    schema: dict[str, Any], describe: dict[str, Any]
) -> None:
    plan, _ = read((SKETCHES / "fsi.toml").read_text(), "fsi.toml", schema=schema, describe=describe)
    assert plan is not None
    assert [c.name for c in plan.cells if plan.reference.items() <= c.label.items()] == ["ext4 ordered"]
    first = plan.cells[0].expand(range(8))["phases"]
    threads = [p["point"]["phases.passes.threads"] for p in first if p.get("name") == "passes"]
    assert threads == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_prepared_files_of_one_study_are_made_once(
    schema: dict[str, Any], describe: dict[str, Any]
) -> None:
    plan, _ = read((SKETCHES / "tsuna.toml").read_text(), "tsuna.toml", schema=schema, describe=describe)
    assert plan is not None
    flat = plan.cells[0].expand(range(len(plan.points)))["phases"]
    assert [p.get("name") for p in flat].count("prepare") == 1
    kinds = [next(iter(p["workload"])) for p in flat if p.get("name") == "load"]
    assert kinds == ["stream"] * 21 + ["random"] * 21
