"""Stacks that were built on purpose in a guest, recorded there by the agent: `stacks/NAME.json`. How each was
built is in `build/NAME.sh`; to add one, write such a file and name it in `caught` of each rule that finds
it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STACKS = sorted((Path(__file__).parent / "stacks").glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found
