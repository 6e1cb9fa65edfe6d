"""The command line in a process of its own, with the real agent or the double behind it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from fsdyno.errors import UserError
from fsdyno.rig.binary import find_agent

ROOT = Path(__file__).parents[2]

PLAN = """\
question = "Which is fastest?"
rounds = 2
[trial]
stack.devices = [{ file = { size = "320MiB", backing = "sparse" } }]
phases = [
  { mkfs = {} },
  { mount = {} },
  { name = "create", workload.tree = { op = "create", dataset = "small" } },
  { unmount = {} },
  { check = {} },
]
[trial.datasets]
small = { files = 300, size = "4K" }
[matrix]
filesystem = ["ext4", "xfs", "tmpfs"]
[reference]
filesystem = "ext4"
"""


def without_agent(why: str) -> NoReturn:
    """Fails: a run in which most tests are skipped must not pass for one. Whoever wants only the tests
    that need no agent says so with FSDYNO_TESTS_WITHOUT_AGENT=1, and the others are skipped."""
    if os.environ.get("FSDYNO_TESTS_WITHOUT_AGENT") == "1":
        pytest.skip(why)
    pytest.fail(f"{why}\n  (FSDYNO_TESTS_WITHOUT_AGENT=1 skips what needs it)", pytrace=False)


def real_agent() -> Path:
    """The built agent."""
    try:
        return find_agent()
    except UserError as error:
        why = str(error)
    without_agent(why)


def double(folder: Path, *behave: str) -> Path:
    """A program that is the double with this behaviour, for FSDYNO_AGENT."""
    words = [sys.executable, "-m", "fsdyno.rig.double", "--agent", str(real_agent()), *behave]
    program = folder / "double"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)
    return program


class Fsdyno:
    """`fsdyno` in a folder of its own. Calling it gives the finished process."""

    def __init__(self, folder: Path, agent: Path | None) -> None:
        self.folder = folder
        self._environment = {**os.environ, "FSDYNO_STATE": str(folder / "state"), "PYTHONPATH": str(ROOT)}
        self._environment.pop("FSDYNO_WORK", None)
        if agent:
            self._environment["FSDYNO_AGENT"] = str(agent)

    def start(self, *words: str | Path, stdin: int | None = None) -> subprocess.Popen[str]:
        """The running process."""
        return subprocess.Popen(
            [sys.executable, "-m", "fsdyno.cli", *map(str, words)],
            cwd=self.folder,
            env=self._environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str | Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """`given` is what stands in its standard input."""
        process = self.start(*words, stdin=None if given is None else subprocess.PIPE)
        out, err = process.communicate(given, timeout=300)
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(words, process.returncode, out, err)
