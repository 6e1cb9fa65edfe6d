"""The campaign on the terminal: a live line where there is one, plain lines where there is none."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fsdyno.campaign.progress import Header, Step
from fsdyno.campaign.run import Outcome
from fsdyno.errors import Exit
from fsdyno.rig import Event
from fsdyno.store import DEFAULT_PATH
from fsdyno.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

WORDS = {
    "ok": "ok",
    "failed": "FAILED",
    "unsupported": "unsupported",
    "timed_out": "TIMED OUT",
    "teardown_failed": "TEARDOWN FAILED",
    "cancelled": "cancelled",
    "lost": "LOST",
}
COLOURS = {"ok": "green", "cancelled": "yellow", "unsupported": "yellow"}


class Quiet:
    """Says only what a person must know."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def begin(self, header: Header) -> None:
        """Nothing but notes."""
        for note in header.notes:
            self.say(note)

    def trial(self, step: Step, left: float) -> None:
        """Nothing."""

    def event(self, event: Event) -> None:
        """Nothing."""

    def done(self, step: Step, outcome: str, why: str | None, suspect: list[str], left: float) -> None:
        """Only what went wrong."""
        if outcome != "ok":
            self.say(f"{step.cell}, round {step.round}: {WORDS.get(outcome, outcome)}: {why or ''}")

    def say(self, text: str) -> None:
        """On standard error, as everything here."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def finish(self) -> None:
        """Nothing."""


class Plain(Quiet):
    """One line per trial; for logs and pipes."""

    def begin(self, header: Header) -> None:
        """What will be done, and how long it will take."""
        for line in opening(header):
            self.say(line)

    def done(self, step: Step, outcome: str, why: str | None, suspect: list[str], left: float) -> None:
        """`[ 9/36] round 2/6  CELL  ok  (about 4 min left)`."""
        self._console.print(self._line(step, outcome, why, suspect, left), soft_wrap=True)

    def _line(self, step: Step, outcome: str, why: str | None, suspect: list[str], left: float) -> Text:
        from rich.text import Text

        width = len(str(step.trials))
        line = Text(f"[{step.number:>{width}}/{step.trials}] round {step.round}/{step.rounds}  {step.cell}  ")
        line.append(WORDS.get(outcome, outcome), style=COLOURS.get(outcome, "red"))
        if suspect:
            line.append(f"  suspect: {', '.join(word.replace('_', ' ') for word in suspect)}", style="yellow")
        if why:
            line.append(f"  {why}")
        if step.number < step.trials:
            line.append(f"  (about {show_seconds(left)} left)", style="dim")
        return line


class Screen(Plain):
    """A live line below the finished trials. Drawn when events come, by no thread of its own."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live: Live | None = None
        self._step: Step | None = None
        self._begun = self._left = 0.0
        self._phase = ""

    def trial(self, step: Step, left: float) -> None:
        """The live line moves on to this trial."""
        self._step, self._left, self._begun, self._phase = step, left, time.monotonic(), "building"
        self._draw()

    def event(self, event: Event) -> None:
        """The live line names the phase, or what is being done between phases."""
        kind = event["event"]
        if kind == "phase_start" and self._step:
            point = event.get("point") or {}
            at = " " + ", ".join(f"{k}={v}" for k, v in point.items()) if point else ""
            self._phase = f"{event['name']}{at} ({event['index'] + 1}/{self._step.phases})"
        elif kind == "heartbeat" and event.get("doing"):
            done = event.get("done")
            self._phase = event["doing"] + (f" {done:.0%}" if isinstance(done, float) else "")
        elif kind not in ("heartbeat", "phase_end"):
            return
        self._draw()

    def finish(self) -> None:
        """Takes the live line away."""
        if self._live:
            self._live.stop()
            self._live = None

    def _draw(self) -> None:
        from rich.live import Live
        from rich.text import Text

        step = self._step
        if step is None:
            return
        elapsed = time.monotonic() - self._begun
        left = max(0.0, self._left - elapsed)
        line = Text.assemble(
            (f"round {step.round}/{step.rounds}  trial {step.number}/{step.trials}  ", "dim"),
            (step.cell, "bold"),
            f"  {self._phase}  {elapsed:.0f} s",
            (f"  about {show_seconds(left)} left", "dim"),
            no_wrap=True,
            overflow="ellipsis",
        )
        if self._live is None:
            self._live = Live(line, console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(line, refresh=True)


def opening(header: Header) -> list[str]:
    """The lines before the first trial."""
    cells = "1 cell" if header.cells == 1 else f"{header.cells} cells"
    points = f" × {header.points} points" if header.points else ""
    rounds = "1 round" if header.rounds == 1 else f"{header.rounds} rounds"
    lines = [
        header.question,
        f"{cells}{points} × {rounds}, needs {show_bytes(header.space)}, "
        f"about {show_seconds(header.seconds)} ({header.how})",
        header.place,
        f"campaign {header.campaign[:8]} in {header.store}",
    ]
    if header.resumed >= 0:
        lines.append(f"resumed: {header.resumed} of {header.rounds} rounds are complete already")
    lines += [f"left out: {cell}: {why}" for cell, why in header.left_out]
    return lines + header.notes


def choose(console: Console, *, quiet: bool) -> Quiet:
    """The screen that fits: live on a terminal, plain lines elsewhere."""
    if quiet:
        return Quiet(console)
    return Screen(console) if console.is_terminal else Plain(console)


def farewell(outcome: Outcome, plan: Path | None, store: Path) -> list[str]:
    """The lines after the answer: what went wrong, how to go on. None if all is well."""
    lines = []
    bad = {WORDS.get(k, k): n for k, n in outcome.counts.items() if k != "ok"}
    if bad:
        lines.append("trials not ok: " + ", ".join(f"{n} {word}" for word, n in bad.items()))
    if outcome.why:
        lines.append(f"stopped: {outcome.why}")
    if outcome.exit == Exit.TEARDOWN:
        lines.append(
            "this rig needs a person: run `fsdyno clean`; if that fails, a reboot undoes it for certain"
        )
    if outcome.status != "complete" and plan is not None:
        where = "" if str(store) == DEFAULT_PATH else f" --store {shlex.quote(str(store))}"
        lines.append(f"go on with: fsdyno run {shlex.quote(str(plan))}{where} --resume")
    return lines
