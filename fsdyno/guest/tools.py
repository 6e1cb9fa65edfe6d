"""Running the distribution's tools: where they are, which language they speak, what they say at failure."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fsdyno.errors import Exit, UserError

PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])
"""Ordinary users often have no sbin on theirs."""

ENVIRONMENT = {**os.environ, "LC_ALL": "C", "PATH": PATH, "DEBIAN_FRONTEND": "noninteractive"}


def find(tool: str) -> str | None:
    """Where a tool is."""
    return shutil.which(tool, path=PATH)


def need(tool: str, package: str, instead: str | None = None) -> str:
    """Where a tool is. Raises `UserError` that says what to install, or to do instead."""
    found = find(tool)
    if not found:
        raise UserError(
            f"{tool} is missing",
            code=Exit.CANNOT,
            advice=f"install the package {package} (as root: apt-get install {package})"
            + (f", or {instead}" if instead else ""),
        )
    return found


def run(argv: Sequence[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a tool to its end."""
    return subprocess.run(
        argv,
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def last_words(said: str) -> str:
    """The line that tells most: the last error, or else the last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E:", "dpkg-deb: error"))]
    return (errors or lines or ["it said nothing"])[-1]
