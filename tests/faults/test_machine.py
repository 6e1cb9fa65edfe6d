"""What the machine lacks or refuses: a tool that is not installed, a mount that the kernel refuses."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fsdyno.errors import Exit
from tests.cli.fixtures import Fsdyno, real_agent
from tests.faults.plans import plan

Without = Callable[[str], Fsdyno]


@pytest.fixture
def without(fsdyno: Fsdyno) -> Without:
    """The command line on a machine without a tool: for the agent and its children, in a mount namespace
    of their own, something that cannot be run lies over the tool."""

    def hide(tool: str) -> Fsdyno:
        path = shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin:/bin")
        if not path or not shutil.which("unshare"):
            pytest.skip(f"needs {tool}, to hide it, and unshare (util-linux)")
        script = f'mount --bind /dev/null {shlex.quote(str(Path(path).resolve()))} && exec "$@"'
        words = ["unshare", "--mount", "sh", "-c", script, "sh", str(real_agent())]
        program = fsdyno.folder / "agent"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
        return Fsdyno(fsdyno.folder, program)

    return hide


def test_a_missing_tool_is_named_with_its_package_and_the_other_cells_are_measured(without: Without) -> None:
    fsdyno = without("mkfs.xfs")
    (fsdyno.folder / "plan.toml").write_text(plan(filesystems='["ext4", "xfs"]'))
    done = fsdyno("run", "plan.toml")
    assert done.returncode == Exit.OK, done.stderr
    assert "left out: xfs: mkfs.xfs is missing, which the phase `mkfs` needs (install" in done.stderr
    assert "xfs: not measured" in done.stdout and "xfsprogs" in done.stdout
    assert json.loads(fsdyno("report", "--json").stdout)
    survey = json.loads(fsdyno("env", "--json").stdout)
    assert not survey["tools"]["mkfs.xfs"].get("path") and "xfsprogs" in fsdyno("env").stdout


def test_without_the_only_tool_nothing_is_begun(without: Without) -> None:
    fsdyno = without("mkfs.xfs")
    (fsdyno.folder / "plan.toml").write_text(plan(filesystems='["xfs"]'))
    done = fsdyno("run", "plan.toml")
    assert done.returncode == Exit.CANNOT
    assert "mkfs.xfs is missing" in done.stderr and "xfsprogs" in done.stderr
    assert fsdyno("report").returncode == Exit.STORE


def test_a_missing_checker_leaves_out_only_what_needs_it(without: Without) -> None:
    fsdyno = without("xfs_repair")
    text = plan(filesystems='["ext4", "xfs"]')
    (fsdyno.folder / "plan.toml").write_text(text)
    assert "xfs_repair" in fsdyno("run", "plan.toml").stderr
    (fsdyno.folder / "plan.toml").write_text(text.replace("  { check = {} },\n", ""))
    done = fsdyno("run", "plan.toml", "--store", "unchecked.sqlite")
    assert done.returncode == Exit.OK and "left out" not in done.stderr


def test_a_mount_that_fails_says_what_the_kernel_said_and_fails_no_other_cell(fsdyno: Fsdyno) -> None:
    bad = '{ name = "bad", filesystem.type = "ext4", filesystem.extra_mount = ["nonsense"] }'
    (fsdyno.folder / "plan.toml").write_text(plan(rounds=2, filesystems=f'[{bad}, "ext4"]'))
    done = fsdyno("run", "plan.toml")
    assert done.returncode == Exit.INCOMPLETE, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("[")]
    failed = [line for line in lines if "bad" in line]
    assert len(lines) == 4 and len(failed) == 2
    for line in failed:
        assert "phase mount" in line and "the option nonsense" in line
        assert ": ext4: Unknown parameter 'nonsense'" in line
    assert all("ok" in line for line in lines if line not in failed)
    assert "bad: 2 failed of 2 trials" in done.stdout
