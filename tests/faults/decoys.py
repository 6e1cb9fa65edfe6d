"""Innocents that took over what a dead agent's ledger names: its files, folders, loop devices, process.

They have the same names, numbers and tokens, as recycling may bring about; only what is never recycled
(inode with birth time, mount id, start time) tells them from what the agent made.
"""

from __future__ import annotations

import fcntl
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.faults.hosts import attach, content, detach, rename_loop, sh, sparse

PRECIOUS = "precious"
LOOP_CTL_REMOVE = 0x4C81  # linux/loop.h


class Decoys:
    """Made on entry, removed on exit; `check` in between tells that nothing of them has changed."""

    def __init__(self, entries: list[dict[str, Any]], ground: Path) -> None:
        self.entries, self.ground = entries, ground
        self.numbers: set[int] = set()
        """Loop numbers that decoys have taken over."""
        self._files: list[Path] = []
        self._folders: list[Path] = []
        self._mounts: list[Path] = []
        self._loops: dict[Path, tuple[Path, str]] = {}

    @property
    def kinds(self) -> Counter[str]:
        """How many there are of each kind."""
        return Counter(file=len(self._files), mount=len(self._mounts), loop=len(self._loops))

    def __enter__(self) -> Decoys:
        for entry in self.entries:
            [(kind, about)] = entry.items()
            if kind == "file":
                self._file(Path(about["path"]))
            elif kind == "folder" and about["made"]:
                self._folder(Path(about["path"]))
        tokens = [entry["loop"] for entry in self.entries if "loop" in entry]
        numbers = [entry["loop_number"]["number"] for entry in self.entries if "loop_number" in entry]
        for number in numbers:
            self._loop(number, tokens[-1] if tokens else None)
        return self

    def _file(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        path.write_text(PRECIOUS)
        self._files.append(path)

    def _folder(self, path: Path) -> None:
        """Another folder in its place, with a mount of somebody's inside and one on top."""
        if path in self._folders:
            return
        if path.exists():
            path.rename(path.with_name("was-" + path.name))
        path.mkdir()
        (path / PRECIOUS).write_text(PRECIOUS)
        sh("mount", "-t", "tmpfs", "theirs", path)
        (path / PRECIOUS).write_text(PRECIOUS)
        self._folders.append(path)
        self._mounts.append(path)

    def _loop(self, number: int, token: dict[str, Any] | None) -> None:
        """The same number, and the same token over a file of the same name."""
        device = Path(f"/dev/loop{number}")
        if not device.exists():
            return  # the agent died between recording the number and adding it
        image = sparse(self.ground / (token["name"] if token else f"image-{number}"), 1)
        image.write_bytes(PRECIOUS.encode() * 100000)
        with suppress(AssertionError):  # its number is being removed at this moment
            attach(image, device)
            if token:
                rename_loop(device, token["token"])
            self._loops[device] = (image, content(device))
            self.numbers.add(number)

    def check(self) -> None:
        """Raises AssertionError if any of them has changed."""
        for path in self._files:
            assert path.read_text() == PRECIOUS
        for path in self._folders:
            assert (path / PRECIOUS).read_text() == PRECIOUS
            assert path.is_mount()
        for device, (image, was) in self._loops.items():
            backing = Path(f"/sys/block/{device.name}/loop/backing_file").read_text().strip()
            assert backing == str(image) and content(device) == was

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path in self._mounts:
            sh("umount", path)
        for path in self._folders:
            assert kind or (path / PRECIOUS).read_text() == PRECIOUS
            (path / PRECIOUS).unlink()
            path.rmdir()
            with suppress(FileNotFoundError):
                path.with_name("was-" + path.name).rmdir()
        for path in self._files:
            path.unlink(missing_ok=True)
        for device, (image, _) in self._loops.items():
            detach(device)
            image.unlink()
            _remove_number(device)


def _remove_number(device: Path) -> None:
    """Takes a number out of the pool: the ledger that would have done so is gone."""
    with Path("/dev/loop-control").open("rb") as control, suppress(OSError):
        fcntl.ioctl(control, LOOP_CTL_REMOVE, int(device.name.removeprefix("loop")))
