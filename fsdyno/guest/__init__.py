"""Kernels for guests: unpacked from a distribution's package into a cache folder, nothing installed.

Few machines' own kernels have every file system and array that the studies compare. A guest boots another
kernel; this room gets one and puts it where the rig agent looks (`<cache>/kernels/<release>/kernel.json`).
It neither boots anything nor touches the host's kernel, and needs no root.
"""

from __future__ import annotations

from fsdyno.guest.cache import Kernel, cache_folder, kernels, remove
from fsdyno.guest.origin import Archive, Debs, Files
from fsdyno.guest.setup import Done, ensure, setup

__all__ = [
    "Archive",
    "Debs",
    "Done",
    "Files",
    "Kernel",
    "cache_folder",
    "ensure",
    "kernels",
    "remove",
    "setup",
]
