"""Real devices, played by loop devices with a link below /dev/disk/by-id: used when they are named twice
and blank or ours, refused untouched when anybody else's.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fsdyno.errors import Exit
from fsdyno.store import Store
from tests.cli.fixtures import Fsdyno
from tests.faults.hosts import BY_ID, Disk, content, mounted, sh
from tests.faults.plans import on_disk, plan
from tests.faults.traces import left_behind, mounts, processes, until


@pytest.fixture
def disk(fsdyno: Fsdyno) -> Iterator[Disk]:
    """A blank disk that the folder's plan.toml names."""
    with Disk(fsdyno.folder, "a") as disk:
        text = plan(rounds=2, device=on_disk(disk.link), filesystems='["ext4", "xfs"]')
        (fsdyno.folder / "plan.toml").write_text(text)
        yield disk
        until(lambda: left_behind_but_the_disk(fsdyno, disk) == [], "something holds the disk")


def left_behind_but_the_disk(fsdyno: Fsdyno, disk: Disk) -> list[str]:
    return [trace for trace in left_behind(fsdyno.folder) if not trace.startswith(disk.device.name)]


def refused(fsdyno: Fsdyno, disk: Disk, *words: str | Path) -> str:
    """Runs the plan, which must be refused with the disk as it was. What was said."""
    before = content(disk.device)
    done = fsdyno("run", "plan.toml", *words)
    assert done.returncode == Exit.UNSAFE, done.stderr
    assert len(done.stderr.strip().splitlines()) > 1, "a message and an advice"
    assert content(disk.device) == before
    return done.stderr


def begun(fsdyno: Fsdyno) -> bool:
    with suppress(Exception), Store.open(fsdyno.folder / "fsdyno.sqlite") as store:
        return bool(store.campaigns())
    return False


def test_a_blank_disk_named_twice_is_measured_and_left_blank(fsdyno: Fsdyno, disk: Disk) -> None:
    done = fsdyno("run", "plan.toml", "--destroy", disk.link)
    assert done.returncode == Exit.OK, done.stderr
    assert disk.signature() == ""
    with Store.open(fsdyno.folder / "fsdyno.sqlite") as store:
        trials = store.trials(store.campaign().id)
        assert sorted((t.round, t.cell, t.outcome) for t in trials) == [
            (1, 0, "ok"), (1, 1, "ok"), (2, 0, "ok"), (2, 1, "ok"),
        ]  # fmt: skip
        trial = trials[0].id
    events = json.loads(fsdyno("show", trial, "--json").stdout)["events"]
    [built] = [e for e in events if e.get("part") == "device"]
    assert built["facts"]["kind"] == "disk" and built["facts"]["path"] == str(disk.link)
    again = fsdyno("run", "plan.toml", "--destroy", disk.link)
    assert again.returncode == Exit.OK, again.stderr


def test_a_disk_that_the_command_line_does_not_name_is_refused(fsdyno: Fsdyno, disk: Disk) -> None:
    said = refused(fsdyno, disk)
    assert f"everything on {disk.link} would be lost, and --destroy does not name it" in said
    assert f"add: --destroy {disk.link}" in said
    assert not begun(fsdyno)


def test_another_disk_in_destroy_is_no_leave_for_this_one(fsdyno: Fsdyno, disk: Disk) -> None:
    with Disk(fsdyno.folder, "b") as other:
        assert str(disk.link) in refused(fsdyno, disk, "--destroy", other.link)
        assert "--destroy" in refused(fsdyno, disk, "--destroy", disk.device), "the kernel name is not enough"
        assert "--destroy" in refused(fsdyno, disk, "--destroy", BY_ID / "*"), "no wildcards"


def test_a_mounted_disk_is_refused_and_its_place_told(fsdyno: Fsdyno, disk: Disk) -> None:
    sh("mkfs.ext4", "-q", disk.device)
    # Read-only, so that the kernel itself writes nothing to it meanwhile.
    with mounted(fsdyno.folder / "in-use", "-o", "ro", disk.device) as point:
        said = refused(fsdyno, disk, "--destroy", disk.link)
        assert "is in use" in said and f"mounted on {point}" in said
        assert (point / "lost+found").is_dir()
    assert not begun(fsdyno)


def test_a_foreign_file_system_is_refused_by_kind_label_and_uuid(fsdyno: Fsdyno, disk: Disk) -> None:
    uuid = "0f0e0d0c-0b0a-4908-8706-050403020100"
    sh("mkfs.xfs", "-q", "-L", "photos", "-m", f"uuid={uuid}", disk.device)
    said = refused(fsdyno, disk, "--destroy", disk.link)
    assert f"carries xfs, label photos, UUID {uuid}, which fsdyno did not make" in said
    assert f"wipefs --all {disk.link}" in said
    assert not begun(fsdyno)


def test_a_name_that_moves_between_disks_is_refused(fsdyno: Fsdyno, disk: Disk) -> None:
    (fsdyno.folder / "plan.toml").write_text(plan(device=on_disk(disk.device)))
    said = refused(fsdyno, disk, "--destroy", disk.device)
    assert f"{disk.device} is not a link directly below /dev/disk/by-id" in said


def killed_with_a_file_system_on(disk: Disk, fsdyno: Fsdyno) -> None:
    """A campaign on the disk, killed with its agent while a file system of ours is mounted."""
    process: subprocess.Popen[str] = fsdyno.start("run", "plan.toml", "--quiet", "--destroy", disk.link)
    until(lambda: mounts(fsdyno.folder / "state") or process.poll() is not None, "no mount")
    process.kill()
    for pid in processes(fsdyno.folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()
    until(lambda: not processes(fsdyno.folder), "an agent does not die")


def on_a_long_plan(fsdyno: Fsdyno, disk: Disk) -> None:
    """Trials long enough that a kill meets one under way with its file system made."""
    text = plan(rounds=2, device=on_disk(disk.link), files=20000, filesystems='["ext4"]')
    (fsdyno.folder / "plan.toml").write_text(text)
    killed_with_a_file_system_on(disk, fsdyno)
    assert disk.signature() == "ext4", "the kill came too late to test anything"
    assert begun(fsdyno)


def whole(fsdyno: Fsdyno) -> bool:
    with Store.open(fsdyno.folder / "fsdyno.sqlite") as store:
        campaign = store.campaign()
        live = sorted((t.round, t.outcome) for t in store.trials(campaign.id))
        return campaign.status == "complete" and live == [(1, "ok"), (2, "ok")]


@pytest.mark.parametrize("ledger", ["kept", "lost"])
def test_a_resume_recognises_the_file_system_that_a_killed_agent_left(
    fsdyno: Fsdyno, disk: Disk, ledger: str
) -> None:
    on_a_long_plan(fsdyno, disk)
    if ledger == "lost":
        for path in (fsdyno.folder / "state" / "ledger").iterdir():
            path.unlink()
    done = fsdyno("run", "plan.toml", "--resume", "--destroy", disk.link)
    assert done.returncode == Exit.OK, done.stderr
    assert whole(fsdyno) and disk.signature() == ""
    for folder in (fsdyno.folder / "state" / "work").glob("fsdyno-*"):
        assert ledger == "lost" and list(folder.iterdir()) == [], "an empty folder that no ledger knows"
        folder.rmdir()


def test_a_file_system_that_somebody_made_after_the_kill_is_refused_and_not_wiped(
    fsdyno: Fsdyno, disk: Disk
) -> None:
    on_a_long_plan(fsdyno, disk)
    make = ["mkfs.ext4", "-q", "-F", "-L", "theirs", str(disk.device)]
    made = lambda: subprocess.run(make, capture_output=True, check=False).returncode == 0  # noqa: E731
    until(made, "the dead agent's mount keeps the disk")
    before = content(disk.device)
    done = fsdyno("clean")
    assert done.returncode == Exit.OK, done.stderr
    assert "left alone: trial-" in done.stdout and "label theirs" in done.stdout
    said = refused(fsdyno, disk, "--resume", "--destroy", disk.link)
    assert "label theirs" in said and "which fsdyno did not make" in said
    assert content(disk.device) == before
    sh("wipefs", "--all", disk.device)
    done = fsdyno("run", "plan.toml", "--resume", "--destroy", disk.link)
    assert done.returncode == Exit.OK and whole(fsdyno), done.stderr


def test_clean_wipes_what_a_killed_agent_left_on_a_disk_and_only_that(fsdyno: Fsdyno, disk: Disk) -> None:
    on_a_long_plan(fsdyno, disk)
    done = fsdyno("clean")
    assert done.returncode == Exit.OK, done.stderr
    assert "wiped our file system from" in done.stdout and disk.signature() == ""
    assert fsdyno("clean").stdout == "nothing was left behind\n"
