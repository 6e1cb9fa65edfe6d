"""Where the agent's binary is. One place, so that every command finds the same one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fsdyno.errors import Exit, UserError

NAME = "fsdyno-agent"
VARIABLE = "FSDYNO_AGENT"


def find_agent() -> Path:
    """The agent's binary: what FSDYNO_AGENT names, else the one beside the package, else this
    checkout's newest release build, else the one on PATH. Raises `UserError`.
    """
    named = os.environ.get(VARIABLE)
    if named:
        path = Path(named)
        if not (path.is_file() and os.access(path, os.X_OK)):
            raise UserError(
                f"{named} is no program that can be run",
                code=Exit.AGENT,
                where=VARIABLE,
                advice=f"let {VARIABLE} name the agent's binary, or unset it",
            )
        return path.absolute()
    package = Path(__file__).resolve().parent.parent
    beside = package / "bin" / NAME
    if beside.is_file():
        return beside
    built = [p for p in package.parent.glob(f"target/*/release/{NAME}") if os.access(p, os.X_OK)]
    if built:
        return max(built, key=lambda p: p.stat().st_mtime)
    on_path = shutil.which(NAME)
    if on_path:
        return Path(on_path)
    raise UserError(
        f"the agent ({NAME}) is not built",
        code=Exit.AGENT,
        advice=f"run `make agent` in the checkout, or let {VARIABLE} name the binary",
    )
