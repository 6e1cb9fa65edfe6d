"""`fsdyno align` as people use it: what is printed, what goes to programs, what is refused."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fsdyno.errors import Exit
from tests.cli.fixtures import Fsdyno, real_agent

RAID6 = ("--level", "6", "--members", "12", "--chunk", "128K")


@pytest.fixture
def fsdyno(tmp_path: Path) -> Fsdyno:
    """The command line with the real agent."""
    return Fsdyno(tmp_path, real_agent())


def advice(fsdyno: Fsdyno, *words: str) -> dict[str, Any]:
    """What programs get."""
    done = fsdyno("align", *words, "--json")
    assert done.returncode == Exit.OK, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_json_is_the_agents_own_answer(fsdyno: Fsdyno) -> None:
    words = ["align", "--level", "6", "--members", "12", "--chunk", str(128 << 10)]
    said = subprocess.run([real_agent(), *words], capture_output=True, check=True).stdout
    assert advice(fsdyno, *RAID6) == json.loads(said)


def test_published_arrays_have_the_published_numbers(fsdyno: Fsdyno) -> None:
    numbers = advice(fsdyno, *RAID6)["numbers"]
    assert (numbers["stride"], numbers["stripe_width"]) == (32, 320)
    numbers = advice(fsdyno, "--level", "5", "--members", "4", "--chunk", "64K")["numbers"]
    assert (numbers["stride"], numbers["stripe_width"]) == (16, 48)
    assert (numbers["sunit"], numbers["swidth"], numbers["extent"]) == (128, 384, 6 << 20)
    words = ("--level=10", "--members=4", "--chunk=64KiB", "--layout=far2", "--block=1K")
    numbers = advice(fsdyno, *words)["numbers"]
    assert (numbers["data_disks"], numbers["stride"], numbers["stripe_width"]) == (4, 64, 256)


def test_every_array_that_md_makes_has_numbers(fsdyno: Fsdyno) -> None:
    numbers = advice(fsdyno, "--level=0", "--members=2", "--chunk=12K")["numbers"]
    assert (numbers["stride"], numbers["stripe_width"], numbers["extent"]) == (3, 6, 6 << 20)
    assert advice(fsdyno, "--level=5", "--members=2", "--chunk=64K")["numbers"]["data_disks"] == 1
    for level, layout in ((5, "parity-last"), (6, "left-symmetric-6"), (6, "ddf-N-continue")):
        answer = advice(fsdyno, f"--level={level}", "--members=8", "--chunk=64K", f"--layout={layout}")
        assert (answer["array"]["layout"], answer["numbers"]["data_disks"]) == (
            layout,
            7 if level == 5 else 6,
        )


def test_read_ahead_has_an_end_that_is_said(fsdyno: Fsdyno) -> None:
    done = fsdyno("align", "--level", "0", "--members", "1024", "--chunk", "1GiB")
    assert "blockdev --setra 524288 /dev/ARRAY" in done.stdout
    assert "256 MiB is the most that is advised" in " ".join(done.stdout.split())


def test_what_is_printed_is_the_answer_and_fits(fsdyno: Fsdyno) -> None:
    done = fsdyno("align", *RAID6)
    assert (done.returncode, done.stderr) == (Exit.OK, "")
    assert all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout
    printed = [line.strip() for line in done.stdout.splitlines()]
    answer = advice(fsdyno, *RAID6)
    assert printed[0] == "RAID 6, 12 members, chunk 128 KiB, left-symmetric"
    assert printed[1] == "! these commands make everything anew: what is on the device is lost"
    for step in answer["steps"]:
        assert step["command"] in printed, step
    flat = " ".join(printed)
    for text in [*(step["why"] for step in answer["steps"]), *answer["warnings"], *answer["notes"]]:
        assert text in flat, text
    for number in ("1280 KiB, 10 data disks", "32 blocks of 4 KiB", "320 blocks of 4 KiB", "256, 2560"):
        assert number in flat
    headings = [line for line in done.stdout.splitlines()[1:] if line and not line.startswith(" ")]
    assert headings == ["Partition", "LVM", "File system", "Mount", "Read-ahead", "To know"]


def test_without_stripes_it_says_so(fsdyno: Fsdyno) -> None:
    done = fsdyno("align", "--level", "1", "--members", "2")
    assert done.returncode == Exit.OK
    assert "nothing is striped: no numbers to tell" in done.stdout
    assert "numbers" not in advice(fsdyno, "--level", "1", "--members", "2")


def test_a_file_system_that_cannot_have_it_does_not_cost_the_others(fsdyno: Fsdyno) -> None:
    words = ("--level", "5", "--members", "4", "--chunk", "1GiB")
    done = fsdyno("align", *words)
    assert done.returncode == Exit.OK
    assert "no advice for ext4" in done.stdout and "mkfs.xfs -d su=1048576k,sw=3" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "an array has a level and members"),
        ("--level 6", "an array has a level and members"),
        ("--members 4", "an array has a level and members"),
        ("--chunk 64K", "an array has a level and members"),
        ("--level 5 --members 4", "without a chunk size"),
        ("--level 5 --members 1 --chunk 64K", "needs 2 members at least"),
        ("--level 6 --members 3 --chunk 64K", "needs 4 members at least"),
        ("--level 4 --members 4 --chunk 64K", "take --level 5"),
        ("--level 7 --members 4 --chunk 64K", "RAID 7 has no advice"),
        ("--level 300 --members 4 --chunk 64K", "RAID 300 has no advice"),
        ("--level raid6 --members 4 --chunk 64K", "not a valid integer"),
        ("--level -1 --members 4 --chunk 64K", "not in the range"),
        ("--level 5 --members 99999999999999999999 --chunk 64K", "not in the range"),
        ("--level 5 --members 5000 --chunk 64K", "1024 are the most"),
        ("--level 5 --members 4 --chunk 96K", "power of two"),
        ("--level 5 --members 4 --chunk 1K", "power of two"),
        ("--level 5 --members 4 --chunk 0", "power of two"),
        ("--level 0 --members 4 --chunk 6K", "a multiple of 4 KiB"),
        ("--level 5 --members 4 --chunk 64KB", "ambiguous"),
        ("--level 5 --members 4 --chunk 64Q", "unknown unit"),
        ("--level 5 --members 4 --chunk much", "is not a size"),
        ("--level 5 --members 4 --chunk -64K", "negative"),
        ("--level 5 --members 4 --chunk ''", "is not a size"),
        ("--level 5 --members 4 --chunk 99999999P", "more than any array has"),
        ("--level 5 --members 4 --chunk 4K --block 64K", "larger than the chunk"),
        ("--level 5 --members 4 --chunk 64K --block 3000", "a power of two from 1 KiB to 64 KiB"),
        ("--level 5 --members 4 --chunk 64K --block 1M", "a power of two from 1 KiB to 64 KiB"),
        ("--level 5 --members 4 --chunk 64K --layout near2", "no layout `near2`"),
        ("--level 5 --members 4 --chunk 64K --layout ddf-N-restart", "parity-first, parity-last"),
        ("--level 0 --members 4 --chunk 64K --layout left-symmetric", "no layout `left-symmetric`"),
        ("--level 10 --members 4 --chunk 64K --layout n2", "near2, far2, offset2"),
        ("--level 10 --members 2 --chunk 64K --layout near3", "needs 3 members"),
        ("--level 10 --members 4 --chunk 64K --layout ''", "no layout ``"),
        ("--device /dev/md0 --level 5", "leave out one or the other"),
        ("--device /dev/md0 --chunk 64K --layout near2", "--chunk, --layout"),
        ("--device ''", "name a device"),
        ("--speed 9", "No such option"),
        ("/dev/md0", "unexpected extra argument"),
    ],
)
def test_wrong_words_are_told_with_what_to_write(fsdyno: Fsdyno, words: str, told: str) -> None:
    done = fsdyno("align", *shlex.split(words))
    assert (done.returncode, done.stdout) == (Exit.USAGE, ""), done.stderr
    assert told in done.stderr and "agent" not in done.stderr, done.stderr


def test_a_device_without_an_array_cannot_be_advised(fsdyno: Fsdyno, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no device")
    for device in (tmp_path / "nothing", tmp_path / "file", "/dev/null", "-x", "/dev/with\x1bescape"):
        done = fsdyno("align", f"--device={device}")
        assert (done.returncode, done.stdout) == (Exit.CANNOT, ""), done.stderr
        assert len(done.stderr.splitlines()) >= 2, "the reason and what to do instead"
        assert "\x1b" not in done.stderr


@pytest.mark.parametrize("answer", ["{}", "[]", '{"fsdyno_align": 1}', '{"refused": {}}', '{"refused": 7}'])
def test_an_agent_that_answers_otherwise_is_blamed(tmp_path: Path, answer: str) -> None:
    program = tmp_path / "agent"
    lines = ["#!/bin/sh", f'case " $* " in *" align "*) echo {shlex.quote(answer)}; exit 0;; esac']
    program.write_text("\n".join([*lines, f'exec {real_agent()} "$@"']) + "\n")
    program.chmod(0o755)
    done = Fsdyno(tmp_path, program)("align", *RAID6)
    assert done.returncode == Exit.AGENT, done.stderr


def test_it_needs_neither_root_nor_what_only_campaigns_need(tmp_path: Path) -> None:
    code = (
        "import sys; from fsdyno.cli import cli\n"
        f"cli.main({['align', *RAID6]!r}, standalone_mode=False)\n"
        "heavy = {'numpy', 'scipy', 'pydantic', 'plotly', 'sqlite3'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    from sys import executable

    done = subprocess.run([executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
