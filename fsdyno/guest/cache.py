"""The folder of kernels, shared with the rig agent: a kernel is there whole, or it is not there.

`<cache>/kernels/<release>/kernel.json` makes a folder a kernel. It is made under another name, which begins
with a dot, and renamed when finished. One lock serialises those who change the folder: the second of two
setups finds the first one's kernel, and what lies about under a temporary name while the lock is held is
of a process that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsdyno.errors import Exit, UserError, nearest

VARIABLE = "FSDYNO_CACHE"
ABOUT = "kernel.json"
_TEMPORARY = ".new-"
_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,127}\Z")


@dataclass(frozen=True)
class Kernel:
    """A kernel that a guest can boot."""

    release: str
    """As `uname -r` says in the guest."""
    source: str
    """Package and version, or the files that were given."""
    folder: Path
    image: Path
    modules: Path
    """The folder with `modules.dep`."""
    config: Path | None = None

    def size(self) -> int:
        """What it takes on the disk, bytes."""
        found = (p.lstat() for p in self.folder.rglob("*"))
        return sum(512 * stat.st_blocks for stat in found)


def cache_folder(given: Path | str | None = None) -> Path:
    """The cache: as given, else what FSDYNO_CACHE names, else root's or the user's own. The agent has the
    same rule; whoever starts it through sudo has to pass the folder on."""
    if named := given or os.environ.get(VARIABLE):
        return Path(named).absolute()
    if os.geteuid() == 0:
        return Path("/var/cache/fsdyno")
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named).absolute() / "fsdyno"
    return Path("~/.cache/fsdyno").expanduser().absolute()


def is_release(text: str) -> bool:
    """Whether this can be a kernel's release; it also names a folder."""
    return bool(_RELEASE.match(text)) and ".." not in text


def kernels(cache: Path) -> list[Kernel]:
    """The kernels of a cache, newest first. What is damaged is not there."""
    try:
        folders = [p for p in (cache / "kernels").iterdir() if is_release(p.name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot_use(cache, error) from None
    found = [kernel for folder in folders if (kernel := _read(folder))]
    return sorted(found, key=lambda kernel: _age(kernel.release), reverse=True)


def named(cache: Path, release: str) -> Kernel:
    """The kernel of this release. Raises `UserError`."""
    there = kernels(cache)
    for kernel in there:
        if kernel.release == release:
            return kernel
    known = [kernel.release for kernel in there]
    close = nearest(release, known)
    raise UserError(
        f"no guest kernel {release!r} in {cache}",
        code=Exit.CANNOT,
        advice=f"did you mean {close}?"
        if close
        else f"there are: {', '.join(known)}"
        if known
        else "`fsdyno guest setup` gets one",
    )


def _read(folder: Path) -> Kernel | None:
    try:
        about: Any = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        config = about.get("config")
        kernel = Kernel(
            release=str(about["release"]),
            source=str(about["source"]),
            folder=folder,
            image=folder / about["image"],
            modules=folder / about["modules"],
            config=folder / config if config else None,
        )
        whole = kernel.image.is_file() and (kernel.modules / "modules.dep").is_file()
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return kernel if whole and kernel.release == folder.name else None


def _age(release: str) -> tuple[list[int], str]:
    """Sorts 6.1.0-9 before 6.1.0-56, and both before 6.10, as the agent does: both name the newest."""
    return [int(number) for number in re.findall("[0-9]+", release)], release


@contextlib.contextmanager
def locked(cache: Path, say: Callable[[str], None]) -> Iterator[Path]:
    """The folder of kernels, with nobody else changing it, and swept. Waits for others, and says so."""
    folder = cache / "kernels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise cannot_use(cache, error) from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is at work in this cache; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        _sweep(folder)
        yield folder
    except OSError as error:
        raise cannot_use(cache, error) from None
    finally:
        os.close(lock)


def sweep(cache: Path) -> None:
    """Removes what killed setups left, unless somebody is at work, or nothing may be removed by us."""
    folder = cache / "kernels"
    with contextlib.suppress(OSError):
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sweep(folder)
        finally:
            os.close(lock)


def _sweep(folder: Path) -> None:
    for left in folder.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def staged(kernels: Path) -> Iterator[Path]:
    """A temporary folder that is gone afterwards, unless it was published."""
    stage = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=kernels))
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def publish(finished: Path, kernels: Path, about: dict[str, str]) -> Kernel:
    """Makes a finished folder the kernel of its release, in place of an earlier one."""
    (finished / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    place = kernels / about["release"]
    if place.exists():
        _discard(place)
    finished.rename(place)
    kernel = _read(place)
    assert kernel, "what was just written can be read"
    return kernel


def remove(cache: Path, release: str, say: Callable[[str], None]) -> Kernel:
    """Removes a kernel. Raises `UserError` if it is not there."""
    named(cache, release)  # before a folder and a lock are made for nothing
    with locked(cache, say):
        kernel = named(cache, release)
        _discard(kernel.folder)
    return kernel


def _discard(folder: Path) -> None:
    """Removes a kernel's folder; being killed meanwhile leaves no half kernel under its name."""
    grave = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=folder.parent))
    folder.rename(grave / "old")
    shutil.rmtree(grave, ignore_errors=True)


def cannot_use(cache: Path, error: OSError) -> UserError:
    """What an error of the system in the cache means for a person."""
    import errno

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError(
            f"no space left in {cache} ({error.strerror})",
            code=Exit.CANNOT,
            advice="a kernel takes about 200 MB while it is unpacked and 100 MB afterwards: "
            f"free some, or name another folder with --cache DIR or {VARIABLE}",
        )
    return UserError(
        f"the cache cannot be used: {error.strerror or error}",
        code=Exit.CANNOT,
        where=str(error.filename or cache),
        advice=f"name a folder that you may write with --cache DIR or {VARIABLE}",
    )
