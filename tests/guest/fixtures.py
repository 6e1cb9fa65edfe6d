"""Packages of kernels that boot nowhere: small, and wrong in whatever way a test wants."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest

from fsdyno.guest.modules import NEEDED

RELEASE = "6.1.0-7-test"
STORAGE = {
    "virtio_pci": "drivers/virtio",
    "virtio_blk": "drivers/block",
    "virtio_console": "drivers/char",
    "9p": "fs/9p",
    "9pnet_virtio": "net/9p",
}
assert set(STORAGE) == set(NEEDED)


def needs_kmod() -> None:
    """Skips where depmod or a compiler for pretended modules is missing."""
    for tool in ("depmod", "cc", "dpkg-deb"):
        if not shutil.which(tool, path="/usr/bin:/bin:/usr/sbin:/sbin"):
            pytest.skip(f"{tool} is missing")


def image(release: str = RELEASE, *, magic: bytes = b"HdrS", flags: int = 1) -> bytes:
    """The head of a bzImage that says this release."""
    head = bytearray(0x600)
    head[0x202:0x206] = magic
    struct.pack_into("<H", head, 0x20E, 0x300)
    struct.pack_into("<H", head, 0x236, flags)
    text = f"{release} (somebody@somewhere) #1 SMP".encode()
    head[0x500 : 0x500 + len(text)] = text
    return bytes(head)


def module(folder: Path, name: str, depends: str = "", release: str = RELEASE) -> bytes:
    """An object file that says of itself what a module says."""
    lines = [f"name={name}", f"depends={depends}", f"vermagic={release} SMP"]
    text = "\\0".join(lines)
    source = f'const char info[] __attribute__((section(".modinfo"), used)) = "{text}";\n'
    output = folder / f"{name}.o"
    argv = ["cc", "-x", "c", "-c", "-o", str(output), "-"]
    subprocess.run(argv, input=source.replace("\\0", '\\0" "'), text=True, check=True)
    return output.read_bytes()


def kernel_files(folder: Path, release: str = RELEASE) -> dict[str, bytes]:
    """A whole kernel as members of a package."""
    base = f"./lib/modules/{release}"
    files = {
        f"./boot/vmlinuz-{release}": image(release),
        f"./boot/config-{release}": b"CONFIG_X=y\n",
        f"{base}/modules.builtin": b"kernel/lib/built-in-one.ko\n",
        f"{base}/modules.order": b"",
    }
    for name, place in STORAGE.items():
        files[f"{base}/kernel/{place}/{name}.ko"] = module(folder, name, release=release)
    return files


def tar(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    """A tar of these members, under exactly these names."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def deb(
    path: Path,
    data: bytes,
    *,
    name: str = f"linux-image-{RELEASE}",
    version: str = "1.2",
    arch: str = "amd64",
) -> Path:
    """A Debian package around a data.tar; dpkg-deb itself would refuse to make the hostile ones."""
    about = f"Package: {name}\nVersion: {version}\nArchitecture: {arch}\nInstalled-Size: 9\n"
    about += "Maintainer: nobody <nobody@invalid>\nDescription: a test\n"
    control = tar({"./control": about.encode()})
    out = io.BytesIO(b"!<arch>\n")
    out.seek(0, io.SEEK_END)
    for member, content in (("debian-binary", b"2.0\n"), ("control.tar", control), ("data.tar", data)):
        out.write(f"{member:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode())
        out.write(content + b"\n" * (len(content) % 2))
    path.write_bytes(out.getvalue())
    return path


def quiet(text: str) -> None:
    """Says nothing."""
