"""Ctrl-C however often, output that is closed, full or cut off, and text that terminals would obey."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fsdyno.cli import STORE
from fsdyno.errors import Exit
from fsdyno.printing import visible
from fsdyno.store import Store
from tests.cli.fixtures import PLAN, ROOT, double

HOSTILE = "\x1b]0;title\x07\u202eevil\x9b2J"


def environment(folder: Path, *behave: str) -> dict[str, str]:
    return {
        **os.environ,
        "FSDYNO_AGENT": str(double(folder, *behave)),
        "FSDYNO_STATE": str(folder / "state"),
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[Path]:
    """A folder with a store, made by a run whose question is hostile."""
    question = '"Which \\u001b]0;title\\u0007\\u202eevil\\u009b2J is fastest?"'
    (tmp_path / "plan.toml").write_text(PLAN.replace('"Which is fastest?"', question))
    done = shell(tmp_path, "$FSDYNO run plan.toml --rounds 1")
    assert done.returncode == 0, done.stderr
    assert "\\u202eevil" in done.stdout and HOSTILE not in done.stdout + done.stderr
    return tmp_path


def shell(folder: Path, line: str, *behave: str) -> subprocess.CompletedProcess[str]:
    given = environment(folder, *behave) | {"FSDYNO": f"{sys.executable} -m fsdyno"}
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=given, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(("presses", "apart"), [(2, 0.05), (5, 0.02)])
def test_ctrl_c_several_times_at_any_moment_ends_as_one_does(
    tmp_path: Path, presses: int, apart: float
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    given = environment(tmp_path, "--pace", "0.1")
    seed = time.time_ns()
    moments = random.Random(seed)
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-m", "fsdyno", "run", "plan.toml"],
            cwd=tmp_path,
            env=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(moments.uniform(0.4, 3))
        for _ in range(presses):
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            time.sleep(apart)
        _, said = process.communicate(timeout=60)
        assert process.returncode == Exit.INTERRUPTED, (seed, said)
        assert "Traceback" not in said and "LOST" not in said, (seed, said)
    if (tmp_path / STORE).exists():
        with Store.open(tmp_path / STORE) as store:
            for campaign in store.campaigns():
                assert "lost" not in {trial.outcome for trial in store.trials(campaign.id, True)}


@pytest.mark.parametrize("command", ["env", "report", "report --json", "store list", "run plan.toml"])
def test_output_that_cannot_be_written_is_an_error_and_no_defect(measured: Path, command: str) -> None:
    for where in (">&-", ">/dev/full"):
        done = shell(measured, f"$FSDYNO {command} {where}")
        assert done.returncode == Exit.CANNOT, (where, done.stderr)
        assert "standard output" in done.stderr and "defect" not in done.stderr
        assert "Exception" not in done.stderr
        # Only what measures has something to look for in a store.
        assert ("in the store" in done.stderr) == (command.startswith("run") and where == ">/dev/full")


def test_a_reader_that_stops_is_no_error(measured: Path) -> None:
    for command in ("env", "report", "report --csv", "store list"):
        done = shell(measured, f"$FSDYNO {command} | true; echo ${{PIPESTATUS[0]}}")
        assert (done.stdout, done.stderr) == ("0\n", ""), command


def test_a_campaign_outlives_those_who_watch_it(measured: Path) -> None:
    done = shell(measured, "$FSDYNO run plan.toml --store b.sqlite 2>&1 | true; echo ${PIPESTATUS[0]}")
    assert done.stdout == "0\n"
    with Store.open(measured / "b.sqlite") as store:
        assert store.campaign().status == "complete"
    done = shell(measured, "$FSDYNO run plan.toml --store c.sqlite 2>&- >/dev/null")
    assert done.returncode == 0


@pytest.mark.parametrize("command", ["report", "report --json", "report --csv", "plan show plan.toml"])
def test_text_of_a_plan_commands_no_terminal(measured: Path, command: str) -> None:
    done = shell(measured, f"$FSDYNO {command}")
    assert done.returncode == 0, done.stderr
    assert not set("\x1b\x07\x9b\u202e") & set(done.stdout)


def test_what_a_terminal_obeys_is_shown() -> None:
    assert visible("a\x1b[1m\u202eb\tc\nü") == "a\\x1b[1m\\u202eb\tc\nü"


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("FSDYNO_AGENT=/bin/true $FSDYNO env", Exit.AGENT, "not a fsdyno agent"),
        ("FSDYNO_AGENT=/bin/cat $FSDYNO plan show plan.toml", Exit.AGENT, "not a fsdyno agent"),
        ("$FSDYNO bench ''", Exit.USAGE, "DIRECTORY"),
        ("$FSDYNO bench /proc", Exit.CANNOT, "no place for files"),
        ("$FSDYNO bench /sys/kernel", Exit.CANNOT, "no place for files"),
        ("$FSDYNO run plan.toml --destroy /dev/disk/by-id/x", Exit.UNSAFE, "/dev/disk/by-id/x"),
    ],
)
def test_slips_are_named(tmp_path: Path, line: str, code: Exit, said: str) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    done = shell(tmp_path, line)
    assert done.returncode == code and said in done.stderr, done.stderr
