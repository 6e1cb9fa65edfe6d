"""From a plan to what is sent to the agent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from fsdyno.plan import Plan

HEAD = """
question = "?"
[trial]
stack.devices = [{ file = { size = "1GiB", backing = "sparse" } }]
filesystem = { type = "ext4", noatime = true }
datasets.small = { files = 10, size = "4K" }
phases = [
    { mkfs = {} },
    { mount = {} },
    { name = "create", workload.tree = { op = "create", dataset = "small" } },
    { name = "cold", remount = { cold = true } },
    { name = "read", workload.tree = { op = "read", dataset = "small" } },
    { unmount = {} },
]
"""
Read = Callable[[str], Plan]


def load_of(phase: dict[str, Any]) -> dict[str, Any]:
    load: dict[str, Any] = phase["workload"]["tree"]
    return load


def test_a_plan_without_a_matrix_is_one_cell_of_its_name(plan_of: Read) -> None:
    plan = plan_of(HEAD)
    assert [(c.name, c.label) for c in plan.cells] == [("plan", {})]
    assert plan.points == ()
    assert plan.rounds == 6
    assert plan.place == "auto"
    assert plan.cells[0].expand([]) == plan.cells[0].spec


def test_cells_are_the_product_of_the_axes_with_the_first_varying_slowest(plan_of: Read) -> None:
    plan = plan_of(HEAD + '[matrix]\nfilesystem = ["ext4", "xfs"]\n"phases.create.threads" = [1, 4]\n')
    assert [c.name for c in plan.cells] == ["ext4 · 1", "ext4 · 4", "xfs · 1", "xfs · 4"]
    assert plan.cells[3].label == {"filesystem": "xfs", "phases.create.threads": "4"}
    assert plan.cells[3].spec["filesystem"]["type"] == "xfs"
    assert load_of(plan.cells[3].spec["phases"][2])["threads"] == 4
    assert [c.index for c in plan.cells] == [0, 1, 2, 3]


def test_a_word_for_a_file_system_keeps_the_options_that_all_share(plan_of: Read) -> None:
    plan = plan_of(HEAD + '[matrix]\nfilesystem = ["ext4", "xfs"]\n')
    assert [c.spec["filesystem"]["noatime"] for c in plan.cells] == [True, True]


def test_a_bundle_is_merged_deep_and_may_touch_several_places(plan_of: Read) -> None:
    plan = plan_of(
        HEAD
        + '[matrix]\nkind = [{ name = "as is" }, { name = "other", filesystem.barrier = false, '
        + 'phases.create.threads = 3, "stack.devices.0.file.size" = "2GiB", phases.cold.cold = false }]\n'
    )
    spec = plan.cells[1].spec
    assert (spec["filesystem"]["type"], spec["filesystem"]["barrier"]) == ("ext4", False)
    assert spec["filesystem"]["noatime"] is True
    assert load_of(spec["phases"][2])["threads"] == 3
    assert spec["phases"][3]["remount"]["cold"] is False
    assert spec["stack"]["devices"][0]["file"] == {
        "size": 2 << 30,
        "backing": "sparse",
        "logical_block_size": 512,
    }
    assert plan.cells[0].spec["filesystem"]["barrier"] is True


def test_a_key_of_a_phase_may_leave_out_the_tables_between(plan_of: Read) -> None:
    keys = [
        "phases.create.threads",
        "phases.create.tree.threads",
        "phases.create.workload.tree.threads",
        "phases.2.threads",
    ]
    for key in keys:
        plan = plan_of(HEAD + f'[matrix]\n"{key}" = [5]\n')
        assert load_of(plan.cells[0].spec["phases"][2])["threads"] == 5, key


def test_a_key_named_as_a_phase_kind_means_the_load(plan_of: Read) -> None:
    plan = plan_of(HEAD + '[matrix]\n"phases.create.sync" = ["file"]\n')
    assert load_of(plan.cells[0].spec["phases"][2])["sync"] == "file"


def test_what_is_shared_by_phases_is_set_at_the_phase(plan_of: Read) -> None:
    plan = plan_of(HEAD + '[matrix]\n"phases.create.timeout" = ["5s"]\n')
    assert plan.cells[0].spec["phases"][2]["timeout"] == 5.0


SWEEP = '[sweep]\n"phases.create.threads" = [1, 2]\n"phases.read.order" = ["sequential", "random"]\n'


def test_points_are_the_product_and_repeat_from_the_first_to_the_last_phase_named(plan_of: Read) -> None:
    plan = plan_of(HEAD + SWEEP)
    assert [p.name for p in plan.points] == ["1 · sequential", "1 · random", "2 · sequential", "2 · random"]
    flat = plan.cells[0].expand([2, 0, 3, 1])["phases"]
    names = [p.get("name", next(iter(p))) for p in flat]
    assert names == ["mkfs", "mount", *["create", "cold", "read"] * 4, "unmount"]
    assert [load_of(p)["threads"] for p in flat if p.get("name") == "create"] == [2, 1, 2, 1]
    assert [load_of(p)["order"] for p in flat if p.get("name") == "read"] == [
        "sequential", "sequential", "random", "random",
    ]  # fmt: skip


def test_every_repeated_phase_says_which_point_it_belongs_to(plan_of: Read) -> None:
    flat = plan_of(HEAD + SWEEP).cells[0].expand([3, 0, 1, 2])["phases"]
    point = {"phases.create.threads": 2, "phases.read.order": "random"}
    assert [p.get("point") for p in flat][:6] == [
        None,
        None,
        point,
        point,
        point,
        {**point, "phases.create.threads": 1, "phases.read.order": "sequential"},
    ]
    assert "point" not in flat[-1]


def test_a_point_carries_numbers_in_base_units(plan_of: Read) -> None:
    ahead = '{ name = "ahead", set.read_ahead = "1M" }, { unmount'
    plan = plan_of(
        HEAD.replace("{ unmount", ahead) + '[sweep]\n"phases.ahead.read_ahead" = ["128K", "2MiB"]\n'
    )
    assert [p.label["phases.ahead.read_ahead"] for p in plan.points] == ["128K", "2MiB"]
    values = [p["point"] for p in plan.cells[0].expand([0, 1])["phases"] if "point" in p]
    assert values == [{"phases.ahead.read_ahead": 131072}, {"phases.ahead.read_ahead": 2 << 20}]


def test_a_point_carries_a_bundle_by_its_name(plan_of: Read) -> None:
    bundles = ", ".join(
        f"{{ name = {n}, phases.create.threads = {n}, phases.read.threads = {n} }}" for n in (2, 8)
    )
    plan = plan_of(HEAD + f"[sweep]\nthreads = [{bundles}]\n")
    phases = plan.cells[0].expand([1, 0])["phases"]
    assert [p["point"] for p in phases if p.get("name") == "read"] == [{"threads": 8}, {"threads": 2}]
    assert [load_of(p)["threads"] for p in phases if p.get("name") == "read"] == [8, 2]


def test_repeat_may_be_wider_than_what_is_swept(plan_of: Read) -> None:
    plan = plan_of(
        HEAD + '[sweep]\n"phases.read.threads" = [1, 2]\nrepeat = { from = "cold", to = "read" }\n'
    )
    assert plan.cells[0].span == (3, 5)
    assert len(plan.cells[0].expand([1, 0])["phases"]) == 6 + 2


def test_an_order_must_name_every_point_once(plan_of: Read) -> None:
    cell = plan_of(HEAD + SWEEP).cells[0]
    for order in ([], [0, 1, 2], [0, 0, 1, 2], [0, 1, 2, 4]):
        with pytest.raises(ValueError, match="no order of 4 points"):
            cell.expand(order)


def test_what_is_sent_is_valid_for_the_agent_itself(plan_of: Read, schema: dict[str, Any]) -> None:
    plan = plan_of(HEAD + '[matrix]\nfilesystem = ["ext4", "xfs", "tmpfs"]\n' + SWEEP)
    for cell in plan.cells:
        jsonschema.validate(cell.expand(range(4)), schema)


def test_expanding_hands_out_a_copy(plan_of: Read) -> None:
    cell = plan_of(HEAD + SWEEP).cells[0]
    before = json.dumps(cell.expand(range(4)))
    cell.expand(range(4))["phases"][2]["point"]["x"] = 1
    assert json.dumps(cell.expand(range(4))) == before


# ---- which cells a mistake concerns --------------------------------------------------------------

Errors = Callable[[str], list[str]]
FIVE = '[matrix]\nfilesystem = ["ext4", "xfs"]\nn = [{ name = 1 }, { name = 2 }]\n'


def test_a_mistake_that_spoils_some_cells_names_them(errors_of: Errors) -> None:
    wrong = HEAD.replace("noatime = true", "agcount = 4")
    (error,) = errors_of(wrong + FIVE)
    assert error.startswith("plan.toml:5: [trial] filesystem.agcount: unknown key for ext4")
    assert error.endswith('(in cell "ext4 · 1", "ext4 · 2")')
    (error,) = errors_of(wrong + FIVE.replace("{ name = 2 }", "{ name = 2 }, { name = 3 }"))
    assert error.endswith('(in cell "ext4 · 1", "ext4 · 2" and 1 more)')


def test_a_mistake_that_spoils_all_cells_is_told_once_without_them(errors_of: Errors) -> None:
    (error,) = errors_of(HEAD.replace("files = 10", "files = 0") + FIVE)
    assert error.endswith("datasets.small.files: 0 is too small; expected a whole number, at least 1")


# ---- the hash of what is done --------------------------------------------------------------------


def hashes(plan: Plan) -> list[str]:
    return [cell.what for cell in plan.cells]


def test_the_hash_does_not_see_how_a_thing_is_written(plan_of: Read) -> None:
    base = hashes(plan_of(HEAD))
    assert hashes(plan_of(HEAD.replace('"1GiB"', "1073741824"))) == base
    assert hashes(plan_of(HEAD.replace('"4K" }', '"4KiB", files_per_directory = 1000 }'))) == base
    assert hashes(plan_of(HEAD.replace('question = "?"', 'question = "!"\nrounds = 9\nseed = 3'))) == base
    assert hashes(plan_of(HEAD + '[matrix]\nany = [{ name = "thing" }]\n')) == base


def test_the_hash_sees_every_setting(plan_of: Read) -> None:
    variants = [
        HEAD,
        HEAD.replace("1GiB", "2GiB"),
        HEAD.replace("noatime = true", "noatime = false"),
        HEAD.replace("files = 10", "files = 11"),
        HEAD.replace("cold = true", "cold = false"),
        HEAD + SWEEP,
        HEAD + SWEEP.replace("[1, 2]", "[1, 3]"),
        HEAD + SWEEP.replace("[1, 2]", "[1]"),
    ]
    found = [hashes(plan_of(text))[0] for text in variants]
    assert len(set(found)) == len(variants)
    assert all(len(h) == 64 for h in found)


def test_the_hash_does_not_see_the_order_of_points(plan_of: Read) -> None:
    assert hashes(plan_of(HEAD + SWEEP)) == hashes(plan_of(HEAD + SWEEP.replace("[1, 2]", "[2, 1]")))


# ---- reference -----------------------------------------------------------------------------------


def test_a_reference_names_labels_of_the_matrix(plan_of: Read) -> None:
    matrix = '[matrix]\nfilesystem = ["ext4", "xfs"]\n"phases.create.threads" = [1, 4]\n'
    plan = plan_of(HEAD + matrix + '[reference]\nfilesystem = "ext4"\n')
    assert plan.reference == {"filesystem": "ext4"}
    assert plan.cells[3].label == {"filesystem": "xfs", "phases.create.threads": "4"}


def test_a_number_may_name_its_label(plan_of: Read) -> None:
    plan = plan_of(
        HEAD + '[matrix]\n"phases.create.threads" = [1, 4]\n[reference]\n"phases.create.threads" = 1\n'
    )
    assert plan.reference == {"phases.create.threads": "1"}


def test_without_a_reference_nothing_is_compared(plan_of: Read) -> None:
    assert plan_of(HEAD + '[matrix]\nfilesystem = ["ext4", "xfs"]\n').reference == {}
