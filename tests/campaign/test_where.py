"""*Where* names the file systems that really hold what is measured, so that another one is noticed."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fsdyno.campaign.where import differences, filesystem_of, where
from fsdyno.plan import Plan
from tests.campaign import bench

MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - alpha /dev/a rw
30 21 0:5 / /mnt rw - beta none rw
31 30 0:6 / /mnt/with\\040blank rw,noatime - gamma none rw
32 30 0:7 / /mnt/with\\040blank rw - delta none rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "alpha"),
        ("/mntx", "alpha"),
        ("/mnt/a/b", "beta"),
        ("/mnt/with blank/c", "delta"),
    ],
)
def test_a_folder_lies_on_the_longest_mount_point_and_the_last_of_those(folder: str, kind: str) -> None:
    assert filesystem_of(folder, MOUNTS) == kind


def test_the_real_table_is_read() -> None:
    assert filesystem_of("/proc/self") == "proc"


def here(stack: dict[str, Any]) -> dict[str, Any]:
    template = bench.plan().cells[0]
    cell = dataclasses.replace(template, spec={**copy.deepcopy(template.spec), "stack": stack})
    plan: Plan = bench.plan(cells=(cell,))
    return where(plan, "native", bench.survey(), {"version": "1", "engine": 1})


def test_only_the_places_that_are_used_are_part_of_where() -> None:
    work = here({"devices": [{"file": {"size": 1, "backing": "written"}}]})
    assert "work_filesystem" in work
    assert "folder_filesystems" not in work
    for stack in (
        {"directory": "/proc"},
        {"devices": [{"file": {"size": 1, "backing": "written", "folder": "/proc"}}]},
    ):
        named = here(stack)
        assert named["folder_filesystems"] == {"/proc": "proc"}
        assert "work_filesystem" not in named


def test_another_file_system_in_the_directory_is_a_difference_with_its_name(tmp_path: Path) -> None:
    old = here({"directory": str(tmp_path)})
    new = {**old, "folder_filesystems": {str(tmp_path): "other"}}
    [told] = differences(old, new)
    assert told == f"folder_filesystems.{tmp_path}: {filesystem_of(str(tmp_path))} -> other"
