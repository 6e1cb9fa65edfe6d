"""Wrong plans and wrong stores given to a real campaign: told by file and line, and nothing is touched.

Every kind of mistake is a file in tests/plan/bad; here is that the command line ends as it must.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fsdyno.errors import Exit
from tests.cli.fixtures import Fsdyno
from tests.faults.hosts import content
from tests.faults.plans import plan

BAD = Path(__file__).parents[1] / "plan" / "bad"


@pytest.mark.parametrize("case", ["unknown-key-trial", "unit-unknown", "size-negative", "matrix-empty"])
def test_a_wrong_plan_is_told_by_file_and_line_before_anything_is_made(fsdyno: Fsdyno, case: str) -> None:
    text = (BAD / f"{case}.toml").read_text()
    [told] = re.findall(r"^# error: (.*)$", text, re.M)
    (fsdyno.folder / "plan.toml").write_text(text)
    for verb in (["run"], ["plan", "show"]):
        done = fsdyno(*verb, "plan.toml")
        assert done.returncode == Exit.PLAN
        assert f"plan.toml:{told}" in done.stderr.replace("plan.toml: ", "plan.toml:")
    assert [path.name for path in fsdyno.folder.iterdir()] == ["plan.toml"]


def damaged(path: Path, how: str) -> None:
    whole = path.read_bytes()
    path.write_bytes(
        {
            "truncated": whole[: len(whole) // 2],
            "torn header": whole[:50],
            "foreign": b"%PDF-1.7\n" + bytes(9000),
            "empty": b"",
        }[how]
    )


@pytest.mark.parametrize("how", ["truncated", "torn header", "foreign", "empty"])
def test_a_damaged_store_is_told_by_every_command_and_left_as_it_is(fsdyno: Fsdyno, how: str) -> None:
    (fsdyno.folder / "plan.toml").write_text(plan(filesystems='["tmpfs"]').replace("  { check = {} },\n", ""))
    assert fsdyno("run", "plan.toml").returncode == Exit.OK
    store = fsdyno.folder / "fsdyno.sqlite"
    damaged(store, how)
    before = content(store)
    commands = [["run", "plan.toml", "--resume"], ["report"], ["show", "a"], ["store", "list"]]
    if how != "empty":  # an empty file may become a store
        commands.append(["run", "plan.toml"])
    for words in commands:
        done = fsdyno(*words)
        assert done.returncode == Exit.STORE, (words, done.stderr)
        assert "fsdyno.sqlite: " in done.stderr
        assert len(done.stderr.strip().splitlines()) > 1, "a message and an advice"
    assert content(store) == before
