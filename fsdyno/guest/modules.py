"""The modules of a kernel, made usable: only those that can load, with the index of what needs what.

depmod says nothing of a needed module that is not there, and the kernel would tell of it only in a guest
that misses a file system. So what each module needs is compared with what was kept.
"""

from __future__ import annotations

import re
from pathlib import Path

from fsdyno.errors import Exit, UserError
from fsdyno.guest import tools

NEEDED = ("virtio_pci", "virtio_blk", "virtio_console", "9p", "9pnet_virtio")
"""How a guest reaches its disks, its tools and the agent."""

_SUFFIX = re.compile(r"\.ko(\.\w+)?\Z")
_MANY = 500


def need_tools() -> None:
    """Raises `UserError` if depmod and modinfo are not here."""
    for tool in ("depmod", "modinfo"):
        tools.need(tool, "kmod")


def index(stage: Path, release: str, folder: Path) -> int:
    """Removes modules of `folder` that could not load, and lets depmod write `modules.dep` there.

    `folder` is `stage/lib/modules/RELEASE`. Returns how many modules are left. Raises `UserError`.
    """
    modules, foreign = _read(folder)
    if foreign:
        raise UserError(
            f"the modules are of release {', '.join(sorted(foreign - {release}))}, the kernel of {release}",
            code=Exit.CANNOT,
            advice="give the kernel and the modules of one build; a kernel loads no others",
        )
    built_in = _built_in(folder)
    _prune(modules, built_in)
    missing = [name for name in NEEDED if name not in modules and name not in built_in]
    if missing:
        raise UserError(
            f"kernel {release} cannot serve a guest: it has no {', '.join(missing)}",
            code=Exit.CANNOT,
            advice="take a distribution's general kernel, or build one with CONFIG_VIRTIO_PCI, _BLK, "
            "_CONSOLE, CONFIG_NET_9P_VIRTIO and CONFIG_9P_FS",
        )
    for name in ("modules.builtin", "modules.order"):
        (folder / name).touch()  # depmod grumbles without
    # Where depmod looks below its base was decided when it was built.
    alias = stage / "usr"
    alias.symlink_to(".")
    done = tools.run([tools.need("depmod", "kmod"), "-b", str(stage), release])
    alias.unlink()
    if done.returncode or not (folder / "modules.dep").is_file():
        raise UserError(
            f"depmod failed (exit {done.returncode}): {tools.last_words(done.stderr)}",
            code=Exit.CANNOT,
            advice="see whether the cache has room; else the modules are damaged: get them anew",
        )
    return len(modules)


def name_of(file: str) -> str:
    """A module's name from its file's: as in the lists of what a module needs."""
    return _SUFFIX.sub("", file.rsplit("/", 1)[-1]).replace("-", "_")


def _read(folder: Path) -> tuple[dict[str, tuple[Path, list[str]]], set[str]]:
    """Each module's file and what it needs, and the releases they were built for, if not this folder's."""
    files = [f"./{path.relative_to(folder)}" for path in sorted(folder.glob("kernel/**/*.ko*"))]
    modules: dict[str, tuple[Path, list[str]]] = {}
    foreign: set[str] = set()
    modinfo = tools.need("modinfo", "kmod")
    for begin in range(0, len(files), _MANY):
        some = files[begin : begin + _MANY]
        done = tools.run([modinfo, *some], cwd=folder)
        if done.returncode:
            raise UserError(
                f"a module cannot be read: {tools.last_words(done.stderr)}",
                code=Exit.CANNOT,
                advice="the modules are damaged, or compressed as this machine's kmod cannot read: "
                "get them anew, or another kernel",
            )
        name = ""
        for line in done.stdout.splitlines():
            key, _, value = line.partition(":")
            value = value.strip()
            if key == "filename":
                name = name_of(value)
                modules[name] = (folder / value, [])
            elif key == "depends":
                modules[name][1].extend(name_of(need) for need in value.split(",") if need)
            elif key == "vermagic" and value.split(" ", 1)[0] != folder.name:
                foreign.add(value.split(" ", 1)[0])
    return modules, foreign


def _built_in(folder: Path) -> set[str]:
    try:
        lines = (folder / "modules.builtin").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return set()
    return {name_of(line) for line in lines if line}


def _prune(modules: dict[str, tuple[Path, list[str]]], built_in: set[str]) -> None:
    """Removes what needs something that is not there, until nothing does."""
    while True:
        lame = [
            name
            for name, (_, needs) in modules.items()
            if any(need not in modules and need not in built_in for need in needs)
        ]
        if not lame:
            return
        for name in lame:
            file, _ = modules.pop(name)
            file.unlink()
