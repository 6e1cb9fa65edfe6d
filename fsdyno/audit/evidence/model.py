"""How a store would show what a finding costs: which two cells of a campaign are the wrong and the right one,
and in which number the cost is seen. Data for rules; the search is in `search`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fsdyno.audit.stack import Stack


@dataclass(frozen=True)
class Seen:
    """What is known of a cell: its resolved spec, and what stood in each of its trials (`store.stood`)."""

    spec: Mapping[str, Any]
    stood: tuple[Mapping[str, Any], ...]

    def setting(self, path: str) -> Any:
        """What the spec has at a dotted path; None where it has nothing."""
        value: Any = self.spec
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def told(self, fact: str) -> Any:
        """What all trials that say something say of a fact; None where they do not agree."""
        values = [stood[fact] for stood in self.stood if stood.get(fact) is not None]
        return values[0] if values and all(value == values[0] for value in values) else None


@dataclass(frozen=True)
class Shown:
    """A metric (by its name in `describe`) of workloads of one kind that do one of these operations, of which
    the first shows it best. `words` follow its number; a rate of operations says per second in them."""

    metric: str
    load: str
    ops: tuple[str, ...]
    words: str


@dataclass(frozen=True)
class Evidence:
    """Where the cost of a finding shows. Two cells are compared if they are equal but for `differ`."""

    plan: str  # the ready plan that measures it, such as plans/alignment.toml
    wrong: str  # words after the number of the one that has it wrong; `{}` in them is the size at `named`
    right: str
    is_wrong: Callable[[Seen], bool | None]  # None: the cell says nothing about it
    differ: tuple[str, ...]  # paths of the resolved spec
    shown: tuple[Shown, ...]  # the first that may be judged is quoted
    named: str = ""  # path of the resolved spec
    applies: Callable[[Stack], bool] = lambda stack: True  # whether it is about what this stack has


@dataclass(frozen=True)
class Cost:
    """What a finding costs, for people and for programs."""

    text: tuple[str, ...]  # at most two lines of at most `words.WIDTH` columns
    data: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None  # why the store could not be asked; the same for all findings
