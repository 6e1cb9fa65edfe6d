"""Real trials in real guests: one agent that serves many of them, and what its events say, by name.

Nothing here knows how a guest is booted: the agent decides when it boots one, and these tests see it by the
boot ids in what it says.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fsdyno.guest import cache_folder
from fsdyno.rig import Event, Rig, TrialReply
from tests.cli.fixtures import real_agent
from tests.faults.traces import left_behind

MIB = 1 << 20
GIB = 1 << 30
LIMIT = 400.0
"""A trial's own time limit, s: far beyond what any of them takes, so that a hang ends."""

SMALL = {"files": 60, "size": 4096, "files_per_directory": 20}


def needs_guests(rig: Rig) -> None:
    """Skips with the survey's reason where no guest can be booted."""
    guest = rig.survey()["places"]["guest"]
    if not guest["able"]:
        reason = guest["reason"]
        pytest.skip(f"no guests here: {reason['message']} ({reason.get('advice', 'no advice')})")


def sparse(size: int, count: int = 1) -> list[dict[str, Any]]:
    """Devices that are sparse files: nothing here is timed."""
    return [{"file": {"size": size, "backing": "sparse", "count": count}}]


def tree(op: str, dataset: str = "small", name: str | None = None, **more: Any) -> dict[str, Any]:
    """A phase that works on a tree of small files."""
    return {"name": name or op, "workload": {"tree": {"op": op, "dataset": dataset, **more}}}


def stream(op: str, record: int, name: str | None = None, direct: bool = False) -> dict[str, Any]:
    """A phase that reads or writes the dataset `large` from start to end."""
    return {
        "name": name or op,
        "workload": {"stream": {"op": op, "dataset": "large", "record": record, "direct": direct}},
    }


def spec(
    filesystem: str | dict[str, Any],
    phases: Sequence[dict[str, Any]],
    devices: Sequence[dict[str, Any]] | None = None,
    machine: dict[str, Any] | None = None,
    **stack: Any,
) -> dict[str, Any]:
    """A trial in a guest; `large` is 24 MiB, 128 stripes of 192 KiB."""
    return {
        "machine": machine or {},
        "stack": {"devices": list(devices or sparse(512 * MIB)), **stack},
        "filesystem": {"type": filesystem} if isinstance(filesystem, str) else filesystem,
        "datasets": {"small": SMALL, "more": SMALL, "large": {"files": 1, "size": 24 * MIB}},
        "phases": list(phases),
        "timeout": LIMIT,
    }


@dataclass(frozen=True)
class Trial:
    """What came back for a trial, by name."""

    reply: TrialReply

    @property
    def outcome(self) -> str:
        return self.reply.outcome

    @property
    def why(self) -> str:
        """Message and advice in one line; empty where all went well."""
        reason = self.reply.reason or {}
        return " -- ".join(reason[key] for key in ("message", "advice") if reason.get(key))

    @property
    def events(self) -> list[Event]:
        return self.reply.events

    def ok(self) -> Trial:
        """Itself, if it and each of its phases ended well; a phase that has nothing to do may say so."""
        assert self.outcome == "ok", (self.outcome, self.why)
        ends = [(e["name"], e["outcome"], e.get("reason")) for e in self.events if e["event"] == "phase_end"]
        assert all(outcome in ("ok", "not_applicable") for _, outcome, _ in ends), ends
        return self

    def built(self, part: str) -> dict[str, Any]:
        """Facts of the one part of that name."""
        [facts] = [e["facts"] for e in self.events if e["event"] == "built" and e["part"] == part]
        return dict(facts)

    def phase(self, name: str) -> Event:
        """The end of the phase of that name."""
        [end] = [e for e in self.events if e["event"] == "phase_end" and e["name"] == name]
        return end

    def leaves(self, name: str, count: str) -> int:
        """A counter of the leaf devices over a phase, summed."""
        return sum(leaf[count] for leaf in self.phase(name)["leaves"])

    def operations(self, name: str, op: str) -> int:
        """How often a phase's workload did something."""
        done = self.phase(name)["workload"]["operations"]
        return sum(entry["count"] for entry in done if entry["op"] == op)

    def per_byte(self, name: str, count: str) -> float:
        """Bytes at the leaves per byte that the phase's workload wrote."""
        done = self.phase(name)["workload"]["operations"]
        written = sum(entry["bytes"] for entry in done if entry["op"] in ("write", "create"))
        return self.leaves(name, count) / written

    @property
    def boot(self) -> str:
        """Boot id of the guest that it ran in."""
        return str(self.built("machine")["boot"])

    def doubts(self, name: str) -> set[str]:
        """What makes a phase doubtful."""
        return {flag["doubt"] for flag in self.phase(name)["flags"]}


class Bench:
    """An agent with a state folder of its own, and its guests, for one trial after another."""

    def __init__(
        self,
        folder: Path,
        *,
        command: Sequence[str] | None = None,
        work: Path | None = None,
        cache: Path | None = None,
    ) -> None:
        self.folder = folder
        self.rig = Rig(
            command or [str(real_agent())],
            state=folder / "state",
            work=work,
            cache=cache or cache_folder(),
            privileged=False,
        )
        self.session = self.rig.run()

    @property
    def agent(self) -> int:
        """Its process id."""
        return int(self.session.hello["pid"])

    def run(
        self,
        spec: dict[str, Any],
        *,
        round: int = 0,
        on_event: Callable[[Event], None] = lambda event: None,
    ) -> Trial:
        """Runs a trial to its end, by another agent if a test before has lost the last one."""
        if not self.session.alive:
            self.session = self.rig.run()
        return Trial(
            self.session.trial(
                str(uuid.uuid4()), 1, spec, timeout=spec["timeout"], round=round, on_event=on_event
            )
        )

    def close(self) -> None:
        """Ends it; nothing may be left."""
        went = self.session.close()
        assert traces(self.folder) == []
        assert went, "the agent was killed, or could not take something down"


def guests(agent: int) -> list[int]:
    """Process ids of the QEMUs that an agent started."""
    found = []
    for children in Path(f"/proc/{agent}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(pid) for pid in children.read_text().split()]
    return [pid for pid in found if _name(pid).startswith("qemu-system")]


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def holders(folder: Path) -> list[str]:
    """Processes that hold a file below a folder open, deleted or not: a guest has its disks so."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            held = [str(fd.readlink()) for fd in (entry / "fd").iterdir()]
            if int(entry.name) != os.getpid() and any(name.startswith(f"{folder}/") for name in held):
                found.append(f"process {entry.name} ({_name(int(entry.name))})")
    return found


def traces(folder: Path) -> list[str]:
    """Everything of a rig and its guests that lives below a folder, as sentences."""
    return left_behind(folder) + holders(folder)
