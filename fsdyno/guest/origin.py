"""Where a kernel may come from: the distribution's archive, package files, or files of somebody's own."""

from __future__ import annotations

import filecmp
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fsdyno.errors import Exit, UserError
from fsdyno.guest import image, package
from fsdyno.guest.cache import Kernel, kernels
from fsdyno.guest.package import DEFAULT, Apt, Package
from fsdyno.guest.progress import Say, Step
from fsdyno.guest.unpack import Taken, copy_image, copy_modules, unpack


@dataclass(frozen=True)
class Found:
    """A kernel that is in the cache already."""

    kernel: Kernel
    newer: str | None = None
    """Package and version, where the distribution has another one by now."""


class Origin(Protocol):
    """Something that kernels come from."""

    def there(self, cache: Path) -> Found | None:
        """What is in the cache of it already."""

    def take(self, taken: Taken, room: Path, say: Say) -> str:
        """Takes what is kept of it, and says what it was. `room` is an empty folder for what it needs
        meanwhile. Raises `UserError`, or OSError where the cache cannot be written."""


@dataclass(frozen=True)
class Archive:
    """A package of the distribution, or one that names the newest."""

    name: str = DEFAULT

    def there(self, cache: Path) -> Found | None:
        """A kernel of its release; its version may be an earlier one."""
        packages = Apt().resolve(self.name)
        for kernel in kernels(cache):
            if packages and kernel.release == package.release_of(packages[0].name):
                source = _source(packages)
                return Found(kernel, newer=None if kernel.source == source else source)
        return None

    def take(self, taken: Taken, room: Path, say: Say) -> str:
        """Downloads and unpacks; fetches package lists if those of the machine do not serve."""
        apt = Apt()
        packages = apt.resolve(self.name)
        if not packages and (error := apt.unknown(self.name)):
            raise error
        try:
            debs = apt.download(packages, room, say) if packages else []
        except UserError as error:
            say(error.message)
            debs = []
        if not debs:
            apt.refresh(room, say)
            packages = apt.resolve(self.name)
            if not packages:
                raise apt.unknown(self.name) or UserError(
                    "there are no lists of the distribution's packages, and none could be fetched",
                    code=Exit.CANNOT,
                    advice=f"see that the package archive can be reached; or {package.INSTEAD}",
                )
            debs = apt.download(packages, room, say)
        for deb in debs:
            _unpack(deb, package.read_deb(deb), taken, say)
        return _source(packages)


@dataclass(frozen=True)
class Debs:
    """Package files: of an image with its modules, or both apart."""

    files: Sequence[Path]

    def there(self, cache: Path) -> Found | None:
        """A kernel of these very packages."""
        source = _source(self._read())
        return next((Found(kernel) for kernel in kernels(cache) if kernel.source == source), None)

    def take(self, taken: Taken, room: Path, say: Say) -> str:
        """Unpacks them."""
        packages = self._read()
        for file, about in zip(self.files, packages, strict=True):
            _unpack(file, about, taken, say)
        if not taken.image and not taken.releases:
            raise package.not_a_kernel(str(self.files[0]))
        return _source(packages)

    def _read(self) -> list[Package]:
        return [package.read_deb(file) for file in self.files]


@dataclass(frozen=True)
class Files:
    """A kernel image and the folder of its modules, such as a kernel that somebody built."""

    kernel: Path
    modules: Path
    config: Path | None = None

    def there(self, cache: Path) -> Found | None:
        """A kernel of these files, if the image has not changed since."""
        for kernel in kernels(cache):
            if kernel.source == self._source() and self.kernel.is_file():
                try:
                    same = filecmp.cmp(self.kernel, kernel.image, shallow=False)
                except OSError:  # told when it is taken
                    return None
                return Found(kernel) if same else None
        return None

    def take(self, taken: Taken, room: Path, say: Say) -> str:
        """Copies them: what happens to the files later is nothing to guests."""
        copy_image(self.kernel, self.config, taken)
        release = image.release_of(taken.stage / "vmlinuz", str(self.kernel))
        step = Step(say, f"copying modules of {release}")
        copy_modules(self.modules, release, taken, step.at)
        return self._source()

    def _source(self) -> str:
        return f"{self.kernel.absolute()} with {self.modules.absolute()}"


def _source(packages: Sequence[Package]) -> str:
    return ", ".join(map(str, packages))


def _unpack(deb: Path, about: Package, taken: Taken, say: Say) -> None:
    step = Step(say, f"unpacking {about}", about.unpacked or None)
    unpack(deb, str(deb), taken, step.at)
