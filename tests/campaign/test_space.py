"""Whether a plan fits: every place is asked for what it needs itself, before anything is begun."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fsdyno.campaign.abilities import check_space
from fsdyno.errors import Exit, UserError
from fsdyno.plan import Cell, Plan
from tests.campaign import bench

GIB = 1 << 30
HUGE = 1 << 60


def survey(work: Path, free: int) -> dict[str, Any]:
    found = bench.survey()
    found["folders"] = {**found["folders"], "work": str(work), "free": free}
    return found


def plan(*stacks: dict[str, Any]) -> Plan:
    """One cell per stack; each writes 1000 files of 4 KiB."""
    template = bench.plan().cells[0]
    cells = [
        dataclasses.replace(
            template, index=i, name=f"c{i}", spec={**copy.deepcopy(template.spec), "stack": s}
        )
        for i, s in enumerate(stacks)
    ]
    return bench.plan(cells=tuple[Cell, ...](cells))


def device(size: int, folder: Path | None = None) -> dict[str, Any]:
    file: dict[str, Any] = {"size": size, "backing": "written"}
    return {"devices": [{"file": {**file, **({"folder": str(folder)} if folder else {})}}]}


@pytest.fixture
def other() -> Path:
    """A folder of another file system than the temporary one."""
    return Path("/dev/shm")


def test_a_device_is_counted_in_its_own_folder(tmp_path: Path, other: Path) -> None:
    with pytest.raises(UserError) as caught:
        check_space(plan(device(HUGE, other)), {}, survey(tmp_path, 2 * HUGE))
    assert caught.value.code == Exit.CANNOT
    assert caught.value.where == str(other)
    assert "1024 PiB" in caught.value.message
    check_space(plan(device(1 << 20, other)), {}, survey(tmp_path, 0))


def test_a_cell_in_a_directory_hides_no_device(tmp_path: Path, other: Path) -> None:
    both = plan({"directory": str(other)}, device(GIB))
    with pytest.raises(UserError) as caught:
        check_space(both, {}, survey(tmp_path, GIB - 1))
    assert caught.value.where == str(tmp_path)
    check_space(both, {}, survey(tmp_path, GIB))


def test_a_directory_need_not_hold_the_devices(tmp_path: Path, other: Path) -> None:
    check_space(plan({"directory": str(other)}, device(HUGE)), {}, survey(tmp_path, HUGE))


def test_folders_of_one_file_system_are_summed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    both = plan(device(GIB), device(GIB, tmp_path / "a"))
    with pytest.raises(UserError) as caught:
        check_space(both, {}, survey(tmp_path, 2 * GIB - 1))
    assert str(tmp_path / "a") in str(caught.value.where)
    assert "2 GiB" in caught.value.message


def test_cells_that_are_left_out_need_nothing(tmp_path: Path) -> None:
    check_space(plan(device(HUGE), device(1 << 20)), {0: {"message": "no"}}, survey(tmp_path, GIB))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    for stack in (device(GIB, gone), {"directory": str(gone)}):
        with pytest.raises(UserError) as caught:
            check_space(plan(stack), {}, survey(tmp_path, HUGE))
        assert caught.value.where == str(gone)
