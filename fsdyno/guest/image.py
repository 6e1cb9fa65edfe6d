"""What a kernel image says of itself, read from its boot header (Linux, Documentation/arch/x86/boot.rst).

An image is asked, not its file name: a kernel with modules of another release boots and then can load
none of them.
"""

from __future__ import annotations

import struct
from pathlib import Path

from fsdyno.errors import Exit, UserError
from fsdyno.guest.cache import is_release

_MAGIC = 0x202  # "HdrS", then the protocol's version
_VERSION = 0x20E  # u16: the version string lies at this + 0x200
_FLAGS = 0x236  # u16 xloadflags, bit 0: has a 64-bit entry point


def release_of(image: Path, called: str) -> str:
    """The release in an x86-64 kernel image. Raises `UserError`, in which it is called so."""
    with image.open("rb") as file:
        head = file.read(0x10000 + 0x400)
    if head[_MAGIC : _MAGIC + 4] != b"HdrS" or len(head) < 0x264:
        raise UserError(
            "is no kernel image that QEMU can boot on a PC (a bzImage)",
            code=Exit.CANNOT,
            where=called,
            advice="name a file such as /boot/vmlinuz-RELEASE or arch/x86/boot/bzImage",
        )
    (flags,) = struct.unpack_from("<H", head, _FLAGS)
    if not flags & 1:
        raise UserError(
            "is a kernel for 32-bit machines, but the agent is a 64-bit program",
            code=Exit.CANNOT,
            where=called,
            advice="take a kernel for x86-64 (Debian calls it amd64)",
        )
    (offset,) = struct.unpack_from("<H", head, _VERSION)
    text = head[offset + 0x200 :].split(b"\0", 1)[0].decode("ascii", "replace")
    release = text.split(" ", 1)[0]
    if not offset or not is_release(release):
        raise UserError(
            "is a kernel image that does not say its release",
            code=Exit.CANNOT,
            where=called,
            advice="take one as the kernel's build makes it; this one is damaged or was altered",
        )
    return release
