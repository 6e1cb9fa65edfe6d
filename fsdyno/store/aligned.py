"""Whether what lies on an array lies on its stripes: what the parts of a stack said of it, and what became of
that when the array grew.

A part that speaks again is right with what it says last. A volume and a file system that do not speak after
their array grew are judged by what that phase read back, for its stripe is another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fsdyno.units import show_bytes

PARTS = ("lvm", "file_system")
"""Parts that say whether they lie on the stripes below."""

GROW = "grow"
_SAYS = {True: "aligned", False: "not aligned"}


@dataclass
class Alignment:
    """Hears the events of a trial. What holds at its end is in `verdict` and `sentences`."""

    _said: dict[str, tuple[bool | None, str | None]] = field(default_factory=dict)
    _facts: dict[str, dict[str, Any]] = field(default_factory=dict)  # part -> of its last `built`
    _phase: str | None = None
    _before: dict[str, bool | None] = field(default_factory=dict)  # part -> verdict as this phase began
    _told: set[str] = field(default_factory=set)  # parts that spoke in this phase

    @property
    def verdict(self) -> bool | None:
        """Whether all parts that say so are aligned; None where none does."""
        verdicts = [aligned for aligned, _ in self._said.values() if aligned is not None]
        return all(verdicts) if verdicts else None

    @property
    def sentences(self) -> list[str]:
        """One for each part that has something to say."""
        return [sentence for _, sentence in self._said.values() if sentence]

    @property
    def growing(self) -> bool:
        """Whether the last phase that began lets the array grow: what is built there was made before."""
        return self._phase == GROW

    def hear(self, event: dict[str, Any]) -> None:
        """Takes the next event of the trial in."""
        kind, facts = event.get("event"), event.get("facts") or {}
        if kind == "phase_start":
            self._begin(event.get("kind"))
        elif kind == "built":
            part = str(event.get("part"))
            self._facts[part] = facts
            if part in PARTS and ("aligned" in facts or "alignment" in facts):
                grown = _volume(facts) if part == "lvm" and self.growing else None
                self._say(part, facts.get("aligned"), facts.get("alignment") or grown)
                self._told.add(part)
        elif kind == "phase_end" and event.get("kind") == GROW:
            if not self.growing:
                self._begin(GROW)
            self._grown(facts)

    def _begin(self, phase: str | None) -> None:
        self._phase, self._told = phase, set()
        self._before = {part: aligned for part, (aligned, _) in self._said.items()}

    def _say(self, part: str, aligned: Any, sentence: Any) -> None:
        verdict = aligned if isinstance(aligned, bool) else None
        words = str(sentence) if sentence else None
        if self.growing and words:
            before = self._before.get(part)
            turned = before is not None and verdict is not None and before is not verdict
            words = (
                f"after `grow` {words}{f' ({_SAYS[before]} before)' if turned and before is not None else ''}"
            )
        self._said[part] = (verdict, words)

    def _grown(self, facts: dict[str, Any]) -> None:
        volume, medium = facts.get("lvm"), facts.get("superblock")
        if "lvm" not in self._told and isinstance(volume, dict) and isinstance(volume.get("aligned"), bool):
            self._say("lvm", volume["aligned"], _volume(volume))
        if "file_system" not in self._told and isinstance(medium, dict):
            self._superblock(facts.get("stripe"), medium, facts.get("told"))

    def _superblock(self, stripe: Any, medium: dict[str, Any], told: Any) -> None:
        """What a superblock is worth on the new stripe: with its old numbers it knows another array, if the
        mounted file system was not `told`."""
        old = self._facts.get("array", {}).get("stripe")
        if "file_system" not in self._said or not old or not stripe or old == stripe:
            return
        made = self._facts.get("file_system", {})
        numbers = ", ".join(f"{name} {value}" for name, value in sorted(medium.items()))
        if told:
            before = self._said["file_system"][0]
            self._say("file_system", before, f"the mount was told {told}; the superblock has {numbers}")
        elif all(made.get(name) == value for name, value in medium.items()):
            now = f"the array's stripe is {show_bytes(stripe)} now"
            self._say("file_system", False, f"the superblock has {numbers} as before, where {now}")
        else:
            self._say("file_system", None, f"the superblock has {numbers}")


def _volume(facts: dict[str, Any]) -> str:
    """Where a volume begins, from its facts."""
    off = facts.get("off_stripe")
    return f"the volume begins {show_bytes(off)} into a stripe" if off else "the volume begins with a stripe"
