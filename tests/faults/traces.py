"""What fsdyno might leave on a host, looked for from outside: in every process's mounts, at every loop
device, in the folders that it was given. Nothing here asks fsdyno itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""A generous deadline for what the kernel finishes by itself, s. Nothing here is timed."""


def until(done: Callable[[], Any], what: str) -> None:
    """Waits until `done` says yes; fails with `what` if it never does."""
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def processes(folder: Path) -> list[int]:
    """Living agents (and doubles) that work below a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"run" in words and str(folder / "state").encode() in words:
                found.append(int(entry.name))
    return found


def mounts(folder: Path) -> list[str]:
    """Mounts below a folder, in the mount namespace of any living process."""
    found: dict[str, None] = {}
    seen = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            space = (entry / "ns" / "mnt").readlink()
            if space in seen:
                continue
            seen.add(space)
            for line in (entry / "mountinfo").read_text().splitlines():
                if any(word.startswith(f"{folder}/") for word in line.split(" ")):
                    found[f"mount {line}"] = None
    return list(found)


def loops(folder: Path) -> list[str]:
    """Loop devices bound to a file below a folder, deleted or not."""
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            if (text := backing.read_text().strip()).startswith(f"{folder}/"):
                found.append(f"{backing.parent.parent.name} on {text}")
    return found


def files(folder: Path) -> list[str]:
    """What lies in the work and ledger folders of a rig."""
    places = [folder / "state" / "work", folder / "state" / "ledger"]
    return [str(path) for place in places for path in sorted(place.glob("*"))]


def left_behind(folder: Path) -> list[str]:
    """Everything of a rig that lives below `folder`, as sentences; empty if there is nothing."""
    agents = [f"process {pid}" for pid in processes(folder)]
    return agents + mounts(folder) + loops(folder) + files(folder)


def ledger(folder: Path) -> list[dict[str, Any]]:
    """All entries of the ledgers that stand; a line that was cut off by a kill is dropped."""
    entries = []
    for path in sorted((folder / "state" / "ledger").glob("*.jsonl")):
        for line in path.read_text().splitlines()[1:]:
            with suppress(ValueError):
                entries.append(json.loads(line))
    return entries


def numbers(entries: list[dict[str, Any]]) -> list[int]:
    """The loop numbers in ledger entries."""
    return [entry["loop_number"]["number"] for entry in entries if "loop_number" in entry]
