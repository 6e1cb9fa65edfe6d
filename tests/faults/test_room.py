"""Too little room, before and in the middle of a campaign, and folders that cannot be written."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from fsdyno.errors import Exit
from tests.cli.fixtures import Fsdyno
from tests.faults.hosts import mounted
from tests.faults.plans import plan
from tests.faults.traces import left_behind

TINY = '{ file = { size = "64MiB", backing = "sparse" } }'


def write(fsdyno: Fsdyno, text: str) -> None:
    (fsdyno.folder / "plan.toml").write_text(text)


def nothing_begun(fsdyno: Fsdyno) -> bool:
    """No campaign is on record, and nothing stands."""
    return fsdyno("report").returncode == Exit.STORE and left_behind(fsdyno.folder) == []


def test_devices_larger_than_the_free_space_are_refused_with_both_numbers(fsdyno: Fsdyno) -> None:
    write(fsdyno, plan(device='{ file = { size = "100TiB" } }'))
    done = fsdyno("run", "plan.toml")
    assert done.returncode == Exit.CANNOT
    assert f"{fsdyno.folder}/state/work: the plan needs 100 TiB, but only" in done.stderr
    assert "smaller" in done.stderr and "--work DIR" in done.stderr
    assert nothing_begun(fsdyno)


def test_the_space_of_the_named_work_folder_counts(fsdyno: Fsdyno) -> None:
    write(fsdyno, plan(device=TINY))
    with mounted(fsdyno.folder / "small", "-t", "tmpfs", "-o", "size=20m,mode=0700", "tmpfs") as small:
        done = fsdyno("run", "plan.toml", "--work", small / "work")
        assert done.returncode == Exit.CANNOT
        assert f"{small}/work: the plan needs 64 MiB, but only 20 MiB are free" in done.stderr
        assert list(small.iterdir()) == []
    assert nothing_begun(fsdyno)


def fill(folder: Path) -> Path:
    """Takes all the space that is left, again if some was given back meanwhile."""
    hog = folder / "hog"
    with hog.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1 << 20)):
            pass
    return hog


def test_a_disk_that_fills_up_in_mid_campaign_fails_its_trials_by_name_and_no_others(
    fsdyno: Fsdyno,
) -> None:
    write(fsdyno, plan(rounds=40, device=TINY, files=8, size="2MiB"))
    with mounted(fsdyno.folder / "small", "-t", "tmpfs", "-o", "size=80m,mode=0700", "tmpfs") as small:
        process = fsdyno.start("run", "plan.toml", "--work", small)
        assert process.stderr
        said = ""
        while line := process.stderr.readline():
            said += line
            if "FAILED" in line:
                (small / "hog").unlink(missing_ok=True)
            elif line.startswith("[") and "FAILED" not in said:
                fill(small)  # a trial in flight may have held space that it gives back
        process.communicate()
        assert process.returncode == Exit.INCOMPLETE, said
        failed = [line for line in said.splitlines() if line.startswith("[") and "FAILED" in line]
        assert failed and all(f"{small} is full" in line for line in failed), said
        assert "backing file cannot grow" in failed[0] and "folder with room" in failed[0]
        last = [line for line in said.splitlines() if line.startswith("[")][-1]
        assert "ok" in last and "Traceback" not in said, "with room again, trials go on"
        assert list(small.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["bench", "{}"], Exit.CANNOT, "{} is on a read-only file system"),
        (["run", "plan.toml", "--work", "{}"], Exit.CANNOT, "read-only"),
        (["run", "plan.toml", "--work", "{}/deeper"], Exit.CANNOT, "read-only"),
        (["run", "plan.toml", "--state", "{}/deeper"], Exit.CANNOT, "read-only"),
        (["run", "plan.toml", "--store", "{}/s.sqlite"], Exit.STORE, "{}/s.sqlite: "),
    ],
)
def test_a_read_only_folder_is_named_whatever_it_was_meant_for(
    fsdyno: Fsdyno, words: list[str], code: Exit, said: str
) -> None:
    write(fsdyno, plan(device=TINY))
    point = fsdyno.folder / "read-only"
    with mounted(point, "-t", "tmpfs", "-o", "ro,size=200m,mode=0700", "tmpfs"):
        done = fsdyno(*[word.format(point) for word in words])
    assert done.returncode == code, done.stderr
    assert said.format(point) in done.stderr
    assert len(done.stderr.strip().splitlines()) > 1, "a message and an advice"
    assert nothing_begun(fsdyno)


def test_a_folder_that_others_can_write_is_refused(fsdyno: Fsdyno) -> None:
    write(fsdyno, plan(device=TINY))
    work = fsdyno.folder / "open"
    work.mkdir()
    work.chmod(0o777)
    done = fsdyno("run", "plan.toml", "--work", work)
    assert done.returncode == Exit.CANNOT
    assert f"{work} can be written by other users" in done.stderr and "0700" in done.stderr
    assert list(work.iterdir()) == [] and nothing_begun(fsdyno)
