"""Ledgers that lie: stale ones whose names somebody else took over, and forged ones that point at things
which were never ours. `clean` undoes nothing by its name, and says what it left alone.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fsdyno.errors import Exit
from tests.cli.fixtures import Fsdyno
from tests.faults.hosts import Disk, attach, content, detach, mounted, sparse

Entry = dict[str, Any]
Forge = Callable[..., Path]
NOTHING_IS = {"dev": 1, "ino": 2, "born": None}
BOOT = Path("/proc/sys/kernel/random/boot_id")


@pytest.fixture
def forge(fsdyno: Fsdyno) -> Forge:
    """Writes a ledger as a dead agent of this boot might have."""

    def write(*entries: Entry, version: int = 1) -> Path:
        folder = fsdyno.folder / "state" / "ledger"
        for path in (folder.parent, folder):
            path.mkdir(mode=0o700, exist_ok=True)
        header = {"fsdyno_ledger": version, "boot": BOOT.read_text().strip(), "pid": 1}
        path = folder / "trial-forged.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in (header, *entries)))
        return path

    return write


def of(path: Path, **changes: Any) -> Entry:
    """An identity as ledgers have it, a little wrong on request."""
    about = path.lstat()
    return {"dev": about.st_dev, "ino": about.st_ino, "born": None, **changes}


def born(path: Path) -> Entry:
    """The identity with its birth time, right in every detail."""
    words = ["stat", "--format", "%.9W", str(path)]
    birth = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    seconds, nanoseconds = birth.split(".")
    return of(path, born=[int(seconds), int(nanoseconds)])


def test_things_that_were_never_ours_stay_as_they_are(fsdyno: Fsdyno, forge: Forge) -> None:
    ground = fsdyno.folder / "innocent"
    ground.mkdir()
    (ground / "precious").write_text("keep me")
    (ground / "link").symlink_to(ground / "precious")
    named = ground / "fsdyno-0123456789abcdef.img"
    named.write_text("keep me")
    image = sparse(ground / "image", 1)
    with image.open("r+b") as file:
        file.write(b"keep me" * 1000)
    device = attach(image)
    sleeper = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    number = int(device.name.removeprefix("loop"))
    sequence = int(Path(f"/sys/block/{device.name}/diskseq").read_text())
    ahead = Path(f"/sys/block/{device.name}/queue/read_ahead_kb")
    was = ahead.read_text()
    try:
        with mounted(fsdyno.folder / "mount", "-t", "tmpfs", "tmpfs") as point:
            (point / "precious").write_text("keep me too")
            forge(
                {"folder": {"path": str(ground), "made": None}},
                {"folder": {"path": str(ground), "made": NOTHING_IS}},
                {"folder": {"path": str(ground), "made": of(ground, ino=1)}},
                {"folder": {"path": "/", "made": of(Path("/"))}},
                {"folder": {"path": str(ground / ".."), "made": NOTHING_IS}},
                {"folder": {"path": str(point), "made": None}},
                {"file": {"path": str(ground / "precious"), "made": None}},
                {"file": {"path": str(ground / "precious"), "made": born(ground / "precious")}},
                {"folder": {"path": str(ground), "made": born(ground)}},
                {"file": {"path": str(named), "made": NOTHING_IS}},
                {"file": {"path": str(ground / "link"), "made": None}},
                {"file": {"path": str(device), "made": None}},
                {"file": {"path": str(device), "made": NOTHING_IS}},
                {"loop_number": {"number": number}},
                {"loop": {"token": "fsdyno:x:1", "backing": of(image), "name": "image"}},
                {"loop": {"token": str(image)[:63], "backing": NOTHING_IS, "name": "image"}},
                {"loop": {"token": "", "backing": NOTHING_IS, "name": ""}},
                {"mount": {"point": str(point), "id": {"id": 0, "unique": 0}}},
                {"mount": {"point": "/", "id": {"id": 0, "unique": 0}}},
                {"process": {"pid": sleeper.pid, "start": 1}},
                {"process": {"pid": os.getpid(), "start": 0}},
                {"process": {"pid": 1, "start": 12345678901}},
                {"process": {"pid": 0, "start": 0}},
                {"process": {"pid": 4294967295, "start": 0}},
                {"queue": {
                    "disk": device.name, "sequence": sequence + 1, "attribute": "read_ahead_kb", "old": "4"
                }},
                {"queue": {"disk": "../../etc", "sequence": 0, "attribute": "passwd", "old": "x"}},
            )  # fmt: skip
            done = fsdyno("clean")
            assert done.returncode == Exit.OK, done.stderr
            assert "undone" not in done.stdout
            assert f"left alone: trial-forged: {ground}/precious has no name of ours" in done.stdout
            assert f"{named} is not the file that we made" in done.stdout
            assert (point / "precious").read_text() == "keep me too"
            assert fsdyno("clean").stdout == "nothing was left behind\n", "it was read once"
        assert sleeper.poll() is None
        assert named.read_text() == (ground / "precious").read_text() == "keep me"
        assert (ground / "link").is_symlink()
        backing = Path(f"/sys/block/{device.name}/loop/backing_file").read_text().strip()
        assert backing == str(image) and ahead.read_text() == was
        with image.open("rb") as file:
            assert file.read(7000) == b"keep me" * 1000
    finally:
        sleeper.kill()
        sleeper.wait()
        detach(device)


def test_a_disk_whose_file_system_is_not_on_our_record_is_not_wiped(fsdyno: Fsdyno, forge: Forge) -> None:
    """A ledger alone, even with the right UUID, size and serial number, wipes nothing."""
    uuid = "0f0e0d0c-0b0a-4908-8706-050403020100"
    with Disk(fsdyno.folder, "forged", mib=32) as disk:
        subprocess.run(["mkfs.ext4", "-q", "-U", uuid, str(disk.device)], check=True)
        before = content(disk.device)
        size = 32 << 20
        entry = {"disk": str(disk.link), "size": size, "serial": None, "uuid": uuid}
        forge({"superblock": entry}, {"superblock": {**entry, "disk": str(disk.device)}})
        done = fsdyno("clean")
        assert done.returncode == Exit.OK, done.stderr
        assert "which fsdyno did not make" in done.stdout and "undone" not in done.stdout
        assert content(disk.device) == before


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("garbage\n", "line 2"),
        ('{"format_disk": {"path": "/dev/vda"}}\n', "line 2"),
        ('{"process": {"pid": -1, "start": 1}}\n', "line 2"),
    ],
)
def test_a_ledger_that_cannot_be_read_is_kept_named_and_stops_nobody(
    fsdyno: Fsdyno, forge: Forge, line: str, why: str
) -> None:
    path = forge()
    with path.open("a") as file:
        file.write(line)
    done = fsdyno("clean")
    assert done.returncode == Exit.TEARDOWN
    assert f"{path} cannot be read: {why}" in done.stderr and "remove it by hand" in done.stderr
    path.unlink()
    assert fsdyno("clean").returncode == Exit.OK


def test_a_ledger_of_a_newer_agent_is_not_guessed_at(fsdyno: Fsdyno, forge: Forge) -> None:
    path = forge({"folder": {"path": str(fsdyno.folder), "made": None}}, version=2)
    done = fsdyno("clean")
    assert done.returncode == Exit.TEARDOWN and "version 2" in done.stderr
    path.unlink()
