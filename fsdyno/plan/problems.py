"""What is wrong in a plan, each with its place, so that all of it can be told at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fsdyno.errors import Exit, UserError, nearest

Path = tuple[str | int, ...]
"""A place in a document: keys and array indices from the top."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong at one place."""

    path: Path
    kind: str  # "unknown", "missing", "value", "structure": what sort of mistake, for tests
    message: str
    line: int = 0  # 0: not known
    column: int = 0

    def at(self, origin: str) -> str:
        """The line that a person reads: file, line, key, and what is wrong."""
        place = f"{origin}:{self.line}" if self.line else origin
        key = show_path(self.path)
        return f"{place}: {key}: {self.message}" if key else f"{place}: {self.message}"


class PlanError(UserError):
    """A plan that cannot be used, with every problem found in it."""

    def __init__(self, origin: str, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(p.at(origin) for p in problems), code=Exit.PLAN)


def show_path(path: Path) -> str:
    """`[trial] phases[3].workload.tree`; keys at the top stand alone."""
    if not path:
        return ""
    tables = ("trial", "matrix", "sweep", "reference")
    if path[0] in tables:
        rest = join_path(path[1:])
        return f"[{path[0]}] {rest}" if rest else f"[{path[0]}]"
    return join_path(path)


def join_path(path: Path) -> str:
    """`phases[3].workload.tree`; a key that is a path itself is quoted."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            word = step if all(c.isalnum() or c in "_-" for c in step) and step else f'"{step}"'
            text += f".{word}" if text else word
    return text


def unknown(word: str, known: Sequence[str], what: str) -> str:
    """`unknown key; did you mean "threads"? (known: …)`."""
    near = nearest(word, list(known))
    hint = f'; did you mean "{near}"?' if near else ""
    listing = f" (known: {', '.join(known)})" if known else " (none are known here)"
    return f"unknown {what}{hint}{listing}"
