"""Builds the stacks of `build/` in one guest and records each: `python -m tests.audit.record [NAME …]`.

A name is a script's. All are renewed without names; what cannot be built or read is told, and its record
stays as it was.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fsdyno.rig.binary import find_agent
from tests.guest.script import Completed, run_in_guest

BUILD = Path(__file__).parent / "build"
STACKS = Path(__file__).parent / "stacks"
PARTS = ("lib", "record")
"""Scripts that are no stacks."""

EACH = 25.0
"""What a stack may take on a busy machine, s; most of it is mkfs under emulation."""


@dataclass(frozen=True)
class Recorded:
    """What the agent said of a stack, or why it said nothing; and what was said after it."""

    name: str
    record: dict[str, Any] | None
    milliseconds: int
    why: str = ""
    after: str = ""


def names() -> list[str]:
    """All stacks that can be built; those whose names begin with `right-` have nothing wrong."""
    return sorted(path.stem for path in BUILD.glob("*.sh") if path.stem not in PARTS)


def record(wanted: Iterable[str], after: str = "") -> list[Recorded]:
    """Builds these stacks in one guest, one after the other, and records each. While it stands, a shell there
    runs the command `after`, with `$name` and `$TARGET`.
    """
    wanted = list(wanted)
    completed = run_in_guest(
        (BUILD / "record.sh").read_text(),
        memory=1536 << 20,
        limit=120 + EACH * len(wanted) * (2 if after else 1),
        variables={
            "GUEST_BUILD": str(BUILD),
            "GUEST_STACKS": " ".join(wanted),
            "GUEST_AGENT": str(find_agent()),
            "GUEST_AFTER": after,
        },
    )
    found = {recorded.name: recorded for recorded in _read(completed)}
    missing = f"the guest ended before (code {completed.code}): {completed.err.strip()}"
    return [found.get(name) or Recorded(name, None, 0, missing) for name in wanted]


def _read(completed: Completed) -> Iterator[Recorded]:
    """What `record.sh` printed."""
    recorded, broken, lines = Recorded("", None, 0), False, list[str]()
    for line in completed.out.splitlines():
        match line.split() if line.startswith("@@ ") else []:
            case ["@@", "end"]:
                yield replace(recorded, after="\n".join(lines))
            case ["@@", "after", code, milliseconds]:
                text = "\n".join(lines)
                found = json.loads(text) if not broken and code == "0" else None
                recorded, lines = Recorded(recorded.name, found, int(milliseconds), text), []
            case ["@@", *words, name]:
                recorded, broken, lines = Recorded(name, None, 0), words == ["broken"], []
            case _:
                lines.append(line)


def main() -> int:
    """Renews the records in `stacks/`."""
    failed = 0
    for recorded in record(sys.argv[1:] or names()):
        if recorded.record is None:
            failed += 1
            print(f"{recorded.name}: {recorded.why}", file=sys.stderr)
            continue
        text = json.dumps(recorded.record, indent=1, sort_keys=True, ensure_ascii=False)
        (STACKS / f"{recorded.name}.json").write_text(f"{text}\n")
        print(f"{recorded.name}: {recorded.milliseconds} ms")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
