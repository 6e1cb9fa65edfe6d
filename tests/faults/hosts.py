"""Things on a host that are not fsdyno's: loop devices, mounts, disks with stable names. Each removes
itself, and nothing but itself.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.faults.traces import until

LOOP_CLR_FD = 0x4C01
LOOP_SET_STATUS64 = 0x4C04
LOOP_GET_STATUS64 = 0x4C05
INFO_SIZE = 232  # struct loop_info64 of linux/loop.h
FILE_NAME = slice(56, 120)  # lo_file_name in it
BY_ID = Path("/dev/disk/by-id")


def sh(*words: str | Path) -> str:
    """Runs a command that must succeed; gives what it printed."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout.strip()


def sparse(path: Path, mib: int) -> Path:
    """A sparse file."""
    with path.open("wb") as file:
        file.truncate(mib << 20)
    return path


def attach(image: Path, device: Path | None = None) -> Path:
    """Binds a file to a loop device, to the given one if it is free."""
    if device is None:
        return Path(sh("losetup", "--find", "--show", image))
    sh("losetup", device, image)
    return device


def detach(device: Path) -> None:
    """Unbinds a loop device and waits until it is."""
    sh("losetup", "-d", device)
    until(lambda: not Path(f"/sys/block/{device.name}/loop").exists(), f"{device} stays bound")


def rename_loop(device: Path, token: str) -> None:
    """Writes a token into `lo_file_name`, which is how an agent marks a device as its own."""
    with device.open("rb") as opened:
        info = bytearray(INFO_SIZE)
        fcntl.ioctl(opened, LOOP_GET_STATUS64, info)
        info[FILE_NAME] = token.encode().ljust(64, b"\0")
        fcntl.ioctl(opened, LOOP_SET_STATUS64, bytes(info))


def content(path: Path) -> str:
    """A digest of everything in a file or device, past all caches of the reader's own."""
    with path.open("rb") as opened:
        with suppress(OSError):
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return hashlib.file_digest(opened, "sha256").hexdigest()


@contextmanager
def mounted(point: Path, *words: str | Path) -> Iterator[Path]:
    """`mount WORDS… POINT` for as long as it lasts; the point lies directly below the test's folder.

    That folder is made a shared mount: else any process that has a mount namespace of its own (an agent
    of another rig, say) would keep the mount after it has gone here.
    """
    point.mkdir(exist_ok=True)
    around = point.parent
    sh("mount", "--bind", around, around)
    try:
        sh("mount", "--make-shared", around)
        sh("mount", *words, point)
        try:
            yield point
        finally:
            sh("umount", point)
    finally:
        sh("umount", around)


class Disk:
    """A loop device that stands for a disk: it has a link below /dev/disk/by-id. A context manager."""

    def __init__(self, folder: Path, name: str, mib: int = 400) -> None:
        self.image = sparse(folder / f"disk-{name}", mib)
        self.link = BY_ID / f"fsdyno-test-{name}-{os.getpid()}"

    def __enter__(self) -> Disk:
        self.device = attach(self.image)
        made = []
        for folder in (BY_ID.parent, BY_ID):
            with suppress(FileExistsError):
                folder.mkdir()
                made.append(folder)
        self._made = made
        self.link.symlink_to(self.device)
        # A loop number keeps the attributes that whoever had it before wrote.
        Path(f"/sys/block/{self.device.name}/queue/scheduler").write_text("none")
        return self

    def __exit__(self, *_: object) -> None:
        self.link.unlink()
        for folder in reversed(self._made):
            with suppress(OSError):  # somebody else has a link there now
                folder.rmdir()
        detach(self.device)

    def signature(self) -> str:
        """What blkid sees on it; empty if it is blank."""
        words = ["blkid", "-p", "-o", "value", "-s", "TYPE", str(self.device)]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
