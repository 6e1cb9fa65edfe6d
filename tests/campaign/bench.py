"""A small plan, a rig with the double, and a progress that remembers: for tests of campaigns."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fsdyno.campaign import Header, Options, Outcome, Step, run_campaign
from fsdyno.errors import Exit, UserError
from fsdyno.plan import Cell, Plan
from fsdyno.plan.model import what_hash
from fsdyno.rig import Event, Limits, Rig
from fsdyno.rig.double.__main__ import able
from fsdyno.store import Store

LIMITS = Limits(hello=10, silence=2, grace=3)
CELLS = ("alpha", "beta", "gamma")
DESCRIBE: dict[str, Any] = {
    "protocol": 1,
    "engine": 1,
    "filesystems": [{"name": name} for name in CELLS],
    "metrics": [
        {"name": "wall_seconds", "unit": "s", "direction": "lower", "version": 1, "definition": "wall time"}
    ],
    "phases": {},
    "workloads": {},
}


def survey() -> dict[str, Any]:
    """A survey in which all three file systems work."""
    return able(DESCRIBE)


def plan(rounds: int = 3, files: int = 1000, **changes: Any) -> Plan:
    """Three cells that differ in the file system, and no sweep."""
    cells = []
    for index, name in enumerate(CELLS):
        spec: dict[str, Any] = {
            "stack": {"devices": [{"file": {"size": 1 << 20, "backing": "written"}}]},
            "filesystem": {"type": name},
            "datasets": {"small": {"files": files, "size": 4096}},
            "phases": [
                {"mkfs": {}},
                {"mount": {}},
                {"name": "create", "workload": {"tree": {"op": "create", "dataset": "small", "threads": 2}}},
            ],
            "timeout": 60.0,
        }
        cells.append(Cell(index, {"filesystem": name}, name, spec, (0, 0), what=what_hash(spec, ())))
    fields: dict[str, Any] = {
        "question": "Which is fastest?",
        "name": "small",
        "text": "question = 'Which is fastest?'",
        "rounds": rounds,
        "seed": 7,
        "place": "auto",
        "axes": (),
        "sweep": (),
        "reference": {"filesystem": "alpha"},
        "cells": tuple(cells),
        "points": (),
        "needs_device": lambda spec: True,
        "schema": {},
    }
    return Plan(**{**fields, **changes})


def rig(folder: Path, *behave: str, survey: dict[str, Any] | None = None) -> Rig:
    """A rig whose agent is the double."""
    file = folder / "survey.json"
    file.write_text(json.dumps(survey or able(DESCRIBE)))
    command = [sys.executable, "-m", "fsdyno.rig.double", "--survey", str(file), *behave]
    return Rig(command, privileged=False, limits=LIMITS)


def no_kernel() -> None:
    """No kernel for guests can be had here."""
    raise UserError("there is no network", code=Exit.CANNOT, advice="unpack a kernel yourself")


def run(
    plan: Plan,
    rig: Rig,
    store: Store,
    notebook: Notebook,
    get_kernel: Callable[[], None] = no_kernel,
    **options: Any,
) -> Outcome:
    """Runs a campaign into a store that is open."""
    return run_campaign(
        plan, rig, lambda: store, Options(**options), notebook, describe=DESCRIBE, get_kernel=get_kernel
    )


@dataclass
class Notebook:
    """A progress that writes down what it is told."""

    headers: list[Header] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    ends: list[tuple[str, str]] = field(default_factory=list)
    left: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    finished: int = 0
    on_event: Any = None

    def begin(self, header: Header) -> None:
        self.headers.append(header)

    def trial(self, step: Step, left: float) -> None:
        self.steps.append(step)
        self.left.append(left)

    def event(self, event: Event) -> None:
        if self.on_event:
            self.on_event(event)

    def done(self, step: Step, outcome: str, why: str | None, suspect: list[str], left: float) -> None:
        self.ends.append((step.cell, outcome))

    def say(self, text: str) -> None:
        self.said.append(text)

    def finish(self) -> None:
        self.finished += 1
