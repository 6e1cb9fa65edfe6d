"""In a guest: `python live.py TARGET` audits a stack that stands there, does what each finding says, and
audits again. Prints one line of JSON: `first`, `done` (each command that was run, with its exit code and what
it said), and `again`. `tests/guest/test_audit.py` has it run there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b")
"""A word that a person has to fill in, such as DISK."""


def audited(target: str) -> dict[str, Any]:
    """`code`, `err`, and the `audit` itself."""
    command = [sys.executable, "-m", "fsdyno", "audit", target, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    return {"code": done.returncode, "err": done.stderr, "audit": json.loads(done.stdout or "null")}


def can_be_run(command: str) -> bool:
    """Whether a finding's command is one, and whole."""
    return not command.startswith("#") and not PLACEHOLDER.search(command)


def main(target: str) -> None:
    """Audits, does, audits."""
    first, ran = audited(target), []
    for command in [finding["command"] for finding in (first["audit"] or {}).get("findings", [])]:
        if can_be_run(command):
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, errors="replace")
            ran.append({"command": command, "code": done.returncode, "said": done.stdout + done.stderr})
    print(json.dumps({"first": first, "done": ran, "again": audited(target) if ran else None}))


if __name__ == "__main__":
    main(sys.argv[1])
