"""Taking out of a package, or a folder, what a guest for storage needs, and nothing else.

A package is somebody else's file: only regular files whose whole path is as a kernel's are taken, they are
written under names made here, never over anything, and no links, owners or modes are taken over. The
package is read as a stream, so that it takes no room unpacked as a whole; most of it are drivers of
hardware that no guest has.
"""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from fsdyno.errors import Exit, UserError
from fsdyno.guest import tools
from fsdyno.guest.cache import is_release

_KEPT = (
    *("arch", "block", "crypto", "fs", "lib", "mm"),
    *("net/9p", "net/core"),
    *(f"drivers/{name}" for name in ("block", "md", "scsi", "ata", "nvme", "nvdimm", "dax", "cdrom")),
    *("drivers/virtio", "drivers/char"),
)
"""Folders below `kernel/`: storage, what it computes with, and virtio."""

_LISTS = ("modules.builtin", "modules.builtin.modinfo", "modules.builtin.alias.bin", "modules.order")
_MODULE = re.compile(r"kernel/(?:updates/)?(?P<folder>[\w/+.-]+)/[\w+.-]+\.ko(?:\.(?:xz|zst|gz))?\Z")
_IN_PACKAGE = re.compile(r"(?:\./)?(?:usr/)?lib/modules/(?P<release>[^/]+)/(?P<path>.+)\Z")
_IN_BOOT = re.compile(r"(?:\./)?boot/(?P<what>vmlinuz|config)-(?P<release>[^/]+)\Z")
_LIMIT = 4 << 30
_PIECE = 1 << 20


@dataclass
class Taken:
    """What was taken, in a folder: `vmlinuz`, `config`, and the modules in `lib/modules/RELEASE`, where
    depmod wants them."""

    stage: Path
    image: str | None = None
    """Release in the image's file name."""
    config: bool = False
    releases: set[str] = field(default_factory=set)
    """Releases of the modules."""
    files: int = 0
    size: int = 0
    """Bytes of all files."""

    def modules(self, release: str) -> Path:
        """Where the modules of a release are."""
        return self.stage / "lib" / "modules" / release


def wanted(path: str) -> bool:
    """Whether this path below `lib/modules/RELEASE/` is kept."""
    if path in _LISTS:
        return True
    found = _MODULE.match(path)
    if not found or any(part in ("", ".", "..") for part in path.split("/")):
        return False
    folder = found["folder"] + "/"
    return any(folder.startswith(kept + "/") for kept in _KEPT)


def unpack(deb: Path, called: str, taken: Taken, at: Callable[[int], None]) -> None:
    """Takes from a Debian package. `at` is told the bytes that went by. Raises `UserError`."""
    dpkg = tools.need("dpkg-deb", "dpkg", "give a kernel and its modules with --kernel and --modules")
    with subprocess.Popen(
        [dpkg, "--fsys-tarfile", str(deb)],
        env=tools.ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout and child.stderr
        try:
            flaw = _take_all(child.stdout, taken, at)
            while not flaw and child.stdout.read(_PIECE):
                pass  # padding; to its end, or dpkg-deb dies of the closed pipe
        except BaseException:
            child.kill()
            raise
        child.stdout.close()
        said = child.stderr.read().decode("utf-8", "replace")
    # What dpkg-deb says of a broken package is nearer to the cause than what tarfile makes of the rest.
    if child.returncode > 0 and "Broken pipe" not in said:
        raise _damaged(called, tools.last_words(said))
    if flaw or child.returncode:
        raise _damaged(called, flaw or tools.last_words(said))


def _damaged(called: str, why: str) -> UserError:
    return UserError(
        f"cannot be unpacked: {why}",
        code=Exit.CANNOT,
        where=called,
        advice="download it anew; it must be a Debian package (.deb) of a kernel",
    )


def _take_all(stream: IO[bytes], taken: Taken, at: Callable[[int], None]) -> str | None:
    """Takes what is wanted from a tar stream; what is wrong with the stream, if anything."""
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                at(member.offset)
                if member.isreg() and (target := _target(member.name, taken)):
                    content = tar.extractfile(member)
                    assert content, "a regular file has content"
                    _write(content, target, member.size, taken)
    except (
        tarfile.TarError,
        EOFError,
        ValueError,
        LookupError,
        OverflowError,
    ) as error:  # tarfile lets all out
        return str(error) or type(error).__name__
    return None


def _target(name: str, taken: Taken) -> Path | None:
    """Where a member of a package goes, if anywhere."""
    if boot := _IN_BOOT.match(name):
        if not is_release(boot["release"]):
            return None
        if boot["what"] == "config":
            taken.config = True
            return taken.stage / "config"
        taken.image = boot["release"]
        return taken.stage / "vmlinuz"
    inside = _IN_PACKAGE.match(name)
    if not inside or not is_release(inside["release"]):
        return None
    # Debian and others put the image there, too.
    if inside["path"] in ("vmlinuz", "config"):
        if inside["path"] == "vmlinuz":
            taken.image = inside["release"]
        else:
            taken.config = True
        return taken.stage / inside["path"]
    if not wanted(inside["path"]):
        return None
    taken.releases.add(inside["release"])
    return taken.modules(inside["release"]) / inside["path"]


def copy_image(image: Path, config: Path | None, taken: Taken) -> None:
    """Takes a kernel image and its configuration. Raises `UserError`."""
    for source, name in ((image, "vmlinuz"), (config, "config")):
        if source:
            with _opened(source) as file:
                _write(file, taken.stage / name, os.fstat(file.fileno()).st_size, taken)
    taken.config = config is not None


def copy_modules(folder: Path, release: str, taken: Taken, at: Callable[[int], None]) -> None:
    """Takes modules from a folder such as `/lib/modules/RELEASE`. Raises `UserError`."""
    if not folder.is_dir():
        raise UserError("is no folder", code=Exit.CANNOT, where=str(folder), advice=_MODULES)
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            inside = path.relative_to(folder).as_posix()
            if wanted(inside) and path.is_file() and not path.is_symlink():
                with _opened(path) as file:
                    target = taken.modules(release) / inside
                    _write(file, target, os.fstat(file.fileno()).st_size, taken)
                taken.releases.add(release)
                at(taken.files)
    if not taken.releases:
        raise UserError("holds no modules of a kernel", code=Exit.CANNOT, where=str(folder), advice=_MODULES)


_MODULES = "--modules names the folder that holds `kernel/` and modules.builtin, such as /lib/modules/RELEASE"


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise UserError(
            f"cannot be read: {error.strerror or error}",
            code=Exit.CANNOT,
            where=str(path),
            advice="name a file that you may read; where only root may read /boot, let root copy it",
        ) from None


def _write(content: IO[bytes], target: Path, size: int, taken: Taken) -> None:
    """Writes a new file; one that is there already is the second of its name."""
    taken.files += 1
    taken.size += size
    if taken.size > _LIMIT:
        raise ValueError(f"more than {_LIMIT >> 30} GiB of kernel")
    target.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        file = os.open(target, flags, 0o644)
    except FileExistsError:
        raise ValueError(f"two files named {target.relative_to(taken.stage)}") from None
    with os.fdopen(file, "wb") as output:
        while piece := content.read(_PIECE):
            output.write(piece)
