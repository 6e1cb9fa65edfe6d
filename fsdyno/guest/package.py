"""Getting a distribution's kernel packages with apt, as any user, without installing anything.

A kernel is often asked for by a package that only names the newest one, and some distributions keep the
modules in a package of their own: all of them are found by what they depend on. Package lists of a machine
may be missing or out of date (a kernel's security update removes the earlier one from the archive); then
lists are fetched into the temporary folder, for which no root is needed.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fsdyno.errors import Exit, UserError, nearest
from fsdyno.guest import tools
from fsdyno.guest.progress import Say, Step

DEFAULT = "linux-image-amd64"
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+\Z")
_KERNEL = re.compile(r"linux-(image|binary|modules)-")
_OF_RELEASE = re.compile(r"linux-(?:image|image-unsigned|binary|modules|modules-extra)-(\d.*)\Z")
_DEPTH = 3
INSTEAD = "give a kernel and its modules with --kernel and --modules, or a package with --deb"


@dataclass(frozen=True)
class Package:
    """A package of the archive."""

    name: str
    version: str
    size: int
    """Of the file to download, bytes."""
    unpacked: int
    """As the package says, bytes."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Apt:
    """apt with the machine's package lists, or after `refresh` with lists of its own."""

    def __init__(self) -> None:
        tools.need("apt-get", "apt", INSTEAD)
        tools.need("apt-cache", "apt", INSTEAD)
        self._options = ["-q", "-o", "Acquire::http::Timeout=30", "-o", "Acquire::Retries=2"]
        if os.geteuid() == 0:  # else it complains that its own user may not write here
            self._options += ["-o", "APT::Sandbox::User=root"]

    def resolve(self, name: str) -> list[Package]:
        """The packages that make the kernel `name`, the one with the image first; none if the lists do not
        have it. Raises `UserError` if it is another kind of package."""
        if not _NAME.match(name):
            raise UserError(
                f"{name!r} is no package's name",
                code=Exit.USAGE,
                where="--package",
                advice=f"name one such as {DEFAULT}",
            )
        found: dict[str, Package] = {}
        ask = [name]
        for _ in range(_DEPTH):
            ask = [n for asked in ask if asked not in found for n in self._add(asked, found)]
        packages = [package for package in found.values() if release_of(package.name)]
        if found and not packages:
            raise not_a_kernel(name)
        return sorted(packages, key=lambda package: not package.name.startswith("linux-image"))

    def _add(self, name: str, found: dict[str, Package]) -> list[str]:
        """Adds a package, and returns which ones of its kernel it needs."""
        about = tools.run([tools.need("apt-cache", "apt"), *self._options, "show", "--no-all-versions", name])
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", about.stdout, re.MULTILINE))
        if about.returncode or "Version" not in fields:
            return []
        found[name] = Package(
            name, fields["Version"], _number(fields.get("Size")), 1024 * _number(fields.get("Installed-Size"))
        )
        needs = re.findall(r"([a-z0-9][a-z0-9+.-]+)", re.sub(r"\([^)]*\)", "", fields.get("Depends", "")))
        return [need for need in needs if _KERNEL.match(need)]

    def unknown(self, name: str) -> UserError | None:
        """The error for a package that is in no list, if there are lists of kernels at all."""
        argv = [tools.need("apt-cache", "apt"), *self._options, "pkgnames", "linux-image"]
        known = tools.run(argv).stdout.split()
        if not known:
            return None
        close = nearest(name, known)
        return UserError(
            f"the distribution has no package {name}",
            code=Exit.CANNOT,
            where="--package",
            advice=(f"did you mean {close}? " if close else "")
            + "See: apt-cache search --names-only '^linux-image'",
        )

    def download(self, packages: list[Package], folder: Path, say: Say) -> list[Path]:
        """Downloads packages into a folder. Raises `UserError` (also if only the lists are out of date)."""
        total = sum(package.size for package in packages)
        step = Step(say, f"downloading {', '.join(map(str, packages))} ({total / 1e6:.0f} MB)", total)
        argv = [tools.need("apt-get", "apt"), *self._options, "download"]
        argv += [f"{package.name}={package.version}" for package in packages]
        self._follow(argv, folder, lambda: step.at(sum(p.lstat().st_size for p in folder.glob("*.deb"))))
        return sorted(folder.glob("*.deb"))

    def refresh(self, folder: Path, say: Say) -> None:
        """Fetches package lists into a folder, and uses those. Raises `UserError`."""
        for name in ("lists/partial", "archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        step = Step(say, "fetching lists of packages for this alone")
        self._options += [
            *("-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}"),
            *("-o", "Debug::NoLocking=1", "-o", "APT::Update::Post-Invoke-Success="),
        ]
        argv = [tools.need("apt-get", "apt"), *self._options, "update"]
        self._follow(argv, folder, lambda: step.at(0))

    def _follow(self, argv: list[str], folder: Path, look: Callable[[], None]) -> None:
        """Runs apt, and looks how far it is."""
        with (folder / ".said").open("w+", encoding="utf-8", errors="replace") as said:
            with subprocess.Popen(
                argv, cwd=folder, env=tools.ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            ) as child:
                try:
                    while child.poll() is None:
                        time.sleep(0.05)
                        look()
                except BaseException:
                    child.kill()
                    raise
            said.seek(0)
            words = said.read()
        if child.returncode:
            if "o space left" in words or "enough free space" in words:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise UserError(
                f"apt-get failed: {tools.last_words(words)}",
                code=Exit.CANNOT,
                advice=f"see that the network and the package archive can be reached; or {INSTEAD}",
            )


def release_of(name: str) -> str | None:
    """The kernel's release in a package's name; none in one that only names another."""
    found = _OF_RELEASE.match(name)
    return found[1].removesuffix("-unsigned") if found else None


def not_a_kernel(name: str) -> UserError:
    """The error for a package without a kernel."""
    return UserError(
        f"{name} is no package of a kernel",
        code=Exit.CANNOT,
        advice=f"name one such as {DEFAULT} (see: apt-cache search --names-only '^linux-image')",
    )


def read_deb(deb: Path) -> Package:
    """What a package file says of itself. Raises `UserError`: not a package, or of another machine."""
    if not deb.is_file():
        raise UserError("there is no such file", code=Exit.CANNOT, where=str(deb), advice="check its name")
    dpkg = tools.need("dpkg-deb", "dpkg", "give a kernel and its modules with --kernel and --modules")
    done = tools.run([dpkg, "-f", str(deb), "Package", "Version", "Architecture", "Installed-Size"])
    fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", done.stdout, re.MULTILINE))
    if done.returncode or not {"Package", "Version", "Architecture"} <= fields.keys():
        raise UserError(
            f"is no Debian package: {tools.last_words(done.stderr)}",
            code=Exit.CANNOT,
            where=str(deb),
            advice="name a file such as linux-image-6.1.0-56-amd64_6.1.192-2_amd64.deb",
        )
    if fields["Architecture"] not in ("amd64", "all"):
        raise UserError(
            f"is of architecture {fields['Architecture']}, but guests are x86-64 machines (amd64)",
            code=Exit.CANNOT,
            where=str(deb),
            advice="take the amd64 package of the same kernel",
        )
    size = 1024 * _number(fields.get("Installed-Size"))
    return Package(fields["Package"], fields["Version"], deb.stat().st_size, size)


def assert_machine() -> None:
    """Raises `UserError` on machines whose agent no guest of this kind can run."""
    if platform.machine() != "x86_64":
        raise UserError(
            f"guests are x86-64 machines so far, and this one is {platform.machine()}",
            code=Exit.CANNOT,
            advice='measure natively (place = "native"), or on another machine',
        )


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
