"""`fsdyno bench DIR` with the real agent and without root: it touches nothing but its own folder."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsdyno.errors import Exit
from tests.cli.fixtures import PLAN, Fsdyno, real_agent

NOBODY = 65534


@pytest.fixture
def ground() -> Iterator[Path]:
    """A folder that anybody may enter, unlike pytest's own, with a directory of nobody's in it."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "data").mkdir()
    (folder / "state").mkdir()
    if os.geteuid() == 0:
        for path in ("data", "state"):
            os.chown(folder / path, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def fsdyno(ground: Path) -> Fsdyno:
    """With an agent that has no privilege, whoever runs the test."""
    agent = ground / "fsdyno-agent"
    shutil.copy(real_agent(), agent)
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("needs setpriv (package util-linux) to give up root")
        words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", str(agent)]
        agent = ground / "unprivileged"
        agent.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        agent.chmod(0o755)
    return Fsdyno(ground, agent)


def test_without_root_a_directory_is_measured_and_what_was_not_cold_is_said(
    fsdyno: Fsdyno, ground: Path
) -> None:
    (ground / "data" / "precious").write_text("keep me")
    done = fsdyno("bench", ground / "data", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    assert "random read" in done.stdout
    assert "not cold" in done.stdout
    assert [p.name for p in (ground / "data").iterdir()] == ["precious"]
    assert (ground / "data" / "precious").read_text() == "keep me"


def test_a_read_only_directory_is_an_error_with_the_reason(fsdyno: Fsdyno, ground: Path) -> None:
    (ground / "data").chmod(0o555)
    done = fsdyno("bench", ground / "data", "--rounds", "1")
    assert done.returncode == Exit.CANNOT, done.stderr
    assert f"{ground / 'data'} is not writable" in done.stderr
    assert "no campaign yet" in fsdyno("report").stderr


def test_a_plan_that_needs_root_says_so_and_what_works_without(fsdyno: Fsdyno, ground: Path) -> None:
    (ground / "plan.toml").write_text(PLAN)
    done = fsdyno("run", "plan.toml", "--place", "native")  # a guest would need none
    assert done.returncode == Exit.CANNOT
    assert "root" in done.stderr and "directory" in done.stderr
