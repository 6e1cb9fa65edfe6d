"""Putting a kernel into the cache: once, whole, and without a trace if it does not work out."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from fsdyno.errors import Exit, UserError
from fsdyno.guest import cache as folder
from fsdyno.guest import image, modules
from fsdyno.guest.cache import Kernel
from fsdyno.guest.origin import Archive, Origin
from fsdyno.guest.package import assert_machine
from fsdyno.guest.progress import Say
from fsdyno.guest.unpack import Taken


@dataclass(frozen=True)
class Done:
    """What a setup came to."""

    kernel: Kernel
    already: bool
    """Whether nothing had to be done."""
    newer: str | None = None
    """What the distribution has instead by now."""
    modules: int | None = None
    """How many were kept, where it was unpacked."""


def ensure(cache: Path, say: Say, release: str | None = None) -> Kernel:
    """A kernel for guests: the named release, else the newest of the cache; if there is none, that of the
    distribution, unpacked now. Raises `UserError`.

    `say` is told, now and then, how far that is; nothing if nothing has to be done.
    """
    if release:
        return folder.named(cache, release)
    there = folder.kernels(cache)
    return there[0] if there else setup(cache, say, Archive()).kernel


def setup(cache: Path, say: Say, origin: Origin, *, fresh: bool = False) -> Done:
    """Puts a kernel into the cache, if it is not there; with `fresh` also then. Raises `UserError`."""
    assert_machine()
    if not fresh and (found := origin.there(cache)):
        folder.sweep(cache)
        return Done(found.kernel, already=True, newer=found.newer)
    modules.need_tools()
    with _undone_by_signals(), folder.locked(cache, say) as kernels:
        if not fresh and (found := origin.there(cache)):  # made while we waited
            return Done(found.kernel, already=True, newer=found.newer)
        with folder.staged(kernels) as stage:
            return _make(kernels, stage, origin, say)


def _make(kernels: Path, stage: Path, origin: Origin, say: Say) -> Done:
    room, taken = stage / "room", Taken(stage / "kernel")
    room.mkdir()
    taken.stage.mkdir()
    source = origin.take(taken, room, say)
    shutil.rmtree(room)
    _assert_whole(taken, source)
    release = image.release_of(taken.stage / "vmlinuz", source)
    if release not in taken.releases:
        raise UserError(
            f"the modules are of release {', '.join(sorted(taken.releases))}, the kernel of {release}",
            code=Exit.CANNOT,
            where=source,
            advice="give the kernel and the modules of one build; a kernel loads no others",
        )
    for other in taken.releases - {release}:
        shutil.rmtree(taken.modules(other))
    say(f"indexing the modules of {release}")
    count = modules.index(taken.stage, release, taken.modules(release))
    about = {
        "release": release,
        "source": source,
        "image": "vmlinuz",
        "modules": str(taken.modules(release).relative_to(taken.stage)),
    }
    if taken.config:
        about["config"] = "config"
    return Done(folder.publish(taken.stage, kernels, about), already=False, modules=count)


def _assert_whole(taken: Taken, source: str) -> None:
    for there, what, where in (
        ((taken.stage / "vmlinuz").is_file(), "kernel image", "linux-image"),
        (taken.releases, "modules", "linux-modules"),
    ):
        if not there:
            raise UserError(
                f"no {what} in {source}",
                code=Exit.CANNOT,
                advice=f"some distributions keep them apart: add the {where} package of the same release "
                "with another --deb",
            )


class _Stopped(BaseException):
    """A signal asked to stop."""


@contextlib.contextmanager
def _undone_by_signals() -> Iterator[None]:
    """Within, signals that end a program first let it clean up; then they do what they did before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    got: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        got.append(number)
        if len(got) == 1:  # a second one must not interrupt the cleaning
            raise _Stopped

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    except _Stopped:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if got:
        _again(got[0])


def _again(number: int) -> NoReturn:
    os.kill(os.getpid(), number)
    raise UserError("stopped while a guest kernel was unpacked", code=Exit.INTERRUPTED)
