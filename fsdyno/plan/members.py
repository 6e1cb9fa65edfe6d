"""The members of an array: where their copies or parity lie, and how many may be out, phase by phase.

Only counts: whether the very members that a RAID 10 loses hold all copies of something is the agent's to
know, who asks the kernel. Levels and layouts as in md(4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fsdyno.plan.effects import load_of
from fsdyno.plan.problems import Path, Problem

ARRAY_PHASES = ("fail", "add", "resync", "grow")

PARITY_LAYOUTS = ("left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric")
_COPIES = re.compile(r"(near|far|offset)([1-9][0-9]{0,2})\Z")
_MOST_COPIES = 200
_PARITY = {0: 0, 5: 1, 6: 2}


def copies_of(layout: str | None) -> tuple[str, int] | None:
    """How RAID 10 lays out its copies, and how many; near2 is md's own choice. None if it cannot."""
    found = _COPIES.match(layout or "near2")
    if found is None or not 2 <= int(found[2]) <= _MOST_COPIES:
        return None
    return found[1], int(found[2])


def wrong_layout(level: int, layout: str | None, members: int) -> str | None:
    """Why an array of this level and so many members cannot have a layout."""
    if layout is None:
        return None
    if level in (0, 1):
        return f"RAID {level} has no layouts: leave this out"
    if level in (5, 6):
        known = ", ".join(PARITY_LAYOUTS)
        return None if layout in PARITY_LAYOUTS else f'RAID {level} has no layout "{layout}" (known: {known})'
    found = copies_of(layout)
    if found is None:
        return f'RAID 10 has no layout "{layout}": write near2, far2 or offset2, with the number of copies'
    if found[1] > members:
        return f'"{layout}" keeps {found[1]} copies of each chunk; the array has {members} members'
    return None


def may_lose(array: Mapping[str, Any], members: int) -> int:
    """The most members that may be out while all data is left."""
    level = int(array["level"])
    if level == 1:
        return members - 1
    if level == 10:
        found = copies_of(array.get("layout"))
        copies = found[1] if found else 2
        return members - -(-members // copies)
    return _PARITY[level]


def check_members(
    phases: Sequence[Mapping[str, Any]], array: Mapping[str, Any] | None, devices: int
) -> Iterator[Problem]:
    """Problems of the phases that change an array of so many devices, in order."""
    standing = _Standing(array, devices) if array is not None else None
    for number, phase in enumerate(phases):
        kind, _ = load_of(phase)
        if kind not in ARRAY_PHASES:
            continue
        if standing is None:
            text = f"{kind} without an array: the stack has no stack.array"
            yield Problem(("phases", number), "structure", text)
        elif kind == "grow":
            yield from standing.grow(int(phase[kind]["members"]), ("phases", number, kind, "members"))
        elif kind in ("fail", "add"):
            yield from standing.change(kind, phase[kind]["members"], ("phases", number, kind, "members"))


class _Standing:
    """Which devices are in the array, as the phases before have left it."""

    def __init__(self, array: Mapping[str, Any], devices: int) -> None:
        self.array = array
        self.devices = devices
        self.members = devices - int(array.get("spares", 0))
        self.inside = set(range(self.members))

    def change(self, kind: str, slots: Sequence[int], at: Path) -> Iterator[Problem]:
        """A rebuild counts as done: how long it takes is not the plan's to say."""
        if not slots:
            yield Problem(at, "value", f"names no members: give the slot of one to {kind}, counted from 0")
        for place, slot in enumerate(slots):
            if slot >= self.devices:
                text = f"there is no slot {slot}: the stack has {self.devices} devices, counted from 0"
                yield Problem((*at, place), "value", text)
            elif kind == "fail" and slot not in self.inside:
                text = f"the device of slot {slot} is not in the array at this point"
                yield Problem((*at, place), "structure", text)
            elif kind == "add" and slot in self.inside:
                text = f"the device of slot {slot} is in the array at this point; a fail phase takes it out"
                yield Problem((*at, place), "structure", text)
            elif kind == "add":
                self.inside.add(slot)
            else:
                self.inside.discard(slot)
                yield from self._assert_data((*at, place))

    def _assert_data(self, at: Path) -> Iterator[Problem]:
        out, most = self.members - len(self.inside), may_lose(self.array, self.members)
        if out == most + 1:  # told once
            level = self.array["level"]
            text = (
                f"RAID {level} has no redundancy: it cannot lose a member"
                if not most
                else f"the array would lose its data with {out} members out: this one bears {most}"
            )
            yield Problem(at, "value", text)

    def grow(self, members: int, at: Path) -> Iterator[Problem]:
        if not self.members < members <= self.devices:
            text = (
                f"the array has {self.members} members and {self.devices - self.members} spares: "
                f"{members} are none that it can grow to; name more devices and `spares`"
            )
            yield Problem(at, "value", text)
            return
        if len(self.inside) < self.members:
            text = "the array is degraded at this point: put its members back by an `add` phase before"
            yield Problem(at, "structure", text)
        if self.array["level"] == 0 or (self.array["level"] == 10 and not self._near()):
            what = "RAID 0" if self.array["level"] == 0 else "RAID 10 whose copies are not near"
            text = f"{what} does not grow here: use level 1, 5, 6 or 10 (near), or compare two arrays"
            yield Problem(at, "structure", text)
        free = [slot for slot in range(self.devices) if slot not in self.inside]
        self.inside.update(free[: max(0, members - len(self.inside))])
        self.members = members

    def _near(self) -> bool:
        found = copies_of(self.array.get("layout"))
        return found is None or found[0] == "near"
