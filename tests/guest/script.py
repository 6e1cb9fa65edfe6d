"""Shell scripts in a guest of this host's QEMU, with disks to build stacks of that no host would bear.

The guest has this host's programs and files, read-only; see agent/machine/examples/guest_script.rs.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shlex import quote

import pytest

from fsdyno.guest import cache_folder

ROOT = Path(__file__).parents[2]
BARE = "/run/fsdyno/rig"
"""This host's root in a guest, without the memory that lies over /run and /tmp there."""
NO_GUEST = 125
LATE = 124


@dataclass(frozen=True)
class Completed:
    """What a script said, and its exit code."""

    code: int
    out: str
    err: str


@cache
def runner() -> Path:
    """The program that boots guests for scripts, built as the agent was. Raises `RuntimeError`."""
    newest = sorted(ROOT.glob("target/*/release/fsdyno-agent"), key=lambda path: path.stat().st_mtime)
    release = ["--release"] if newest else []
    command = ["cargo", "build", "--quiet", "--locked", "-p", "fsdyno-machine", "--example", "guest_script"]
    try:
        done = subprocess.run([*command, *release], cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise RuntimeError("there is no cargo") from error
    if done.returncode:
        raise RuntimeError(f"guest_script is not built: {done.stderr}")
    kind = "release" if release else "debug"
    built = ROOT.glob(f"target/*/{kind}/examples/guest_script")
    return max(built, key=lambda path: path.stat().st_mtime)


def run_in_guest(
    script: str,
    *,
    disks: int = 8,
    size: int = 3 << 30,
    memory: int = 1 << 30,
    limit: float = 300,
    variables: Mapping[str, str] | None = None,
) -> Completed:
    """Runs a bash script in a guest of its own, with `disks` of `size` bytes. `variables` must begin with
    `GUEST_`. After `limit` seconds the guest is ended, and the code is `LATE`; without a guest it is
    `NO_GUEST`.
    """
    variables = variables or {}
    assert all(name.startswith("GUEST_") for name in variables), "other variables do not reach the guest"
    environment = {**os.environ, "FSDYNO_CACHE": str(cache_folder()), **variables}
    here, bare = quote(str(ROOT)), quote(f"{BARE}{ROOT}")
    script = f"[ -e {here} ] || {{ mkdir -p {here} && mount --bind {bare} {here}; }}\n{script}"
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as file:
        file.write(script)
        file.flush()
        options = {"disks": disks, "size": size, "memory": memory, "limit": int(limit)}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        done = subprocess.run(
            [str(runner()), *words, file.name],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit + 60,
        )
    return Completed(done.returncode, done.stdout, done.stderr)


def needs_runner() -> None:
    """Skips where the program cannot be built."""
    try:
        runner()
    except RuntimeError as error:
        pytest.skip(str(error))
