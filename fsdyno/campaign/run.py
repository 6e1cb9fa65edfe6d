"""The campaign loop: survey, rounds, trials, and what to do when one of them goes wrong.

Fault model: this process may be killed at any moment (the store then holds whole trials only, and
`--resume` repeats the interrupted round); the agent may die, lie or fall silent (the trial is *lost*,
a new agent takes over, until too many are lost in a row); a stack may not come down (the rig stops).
"""

from __future__ import annotations

import contextlib
import secrets
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fsdyno import __version__
from fsdyno.campaign import resume as resuming
from fsdyno.campaign.abilities import check_space, sentence
from fsdyno.campaign.place import Choice, GetKernel, choose, with_survey
from fsdyno.campaign.progress import Header, Progress, Step, Tally
from fsdyno.campaign.stop import Stop
from fsdyno.campaign.where import where
from fsdyno.errors import Exit, UserError
from fsdyno.plan import Cell, Plan, Round, estimate, rounds
from fsdyno.plan.model import GUEST
from fsdyno.rig import Rig, RunSession, TrialReply
from fsdyno.store import Store

LOST_IN_A_ROW = 3
"""So many lost trials without another in between, and the campaign stops: the agent cannot work here."""


@dataclass(frozen=True)
class Options:
    """What the command line says beyond the plan."""

    rounds: int | None = None
    seed: int | None = None
    name: str | None = None
    destroy: Sequence[str] = ()
    place: str | None = None
    """Where to run instead of the plan's own `place`."""
    resume: str | None = None
    """A campaign's id, `resume.LATEST`, or None for a new campaign."""


@dataclass
class Outcome:
    """How a campaign ended."""

    campaign: str
    status: str = "complete"  # complete | incomplete | interrupted | stopped
    exit: Exit = Exit.OK
    counts: dict[str, int] = field(default_factory=dict)
    """Trials of this run by outcome."""
    why: str | None = None


def run_campaign(
    plan: Plan,
    rig: Rig,
    open_store: Callable[[], Store],
    options: Options,
    progress: Progress,
    *,
    describe: dict[str, Any],
    get_kernel: GetKernel,
) -> Outcome:
    """Runs a plan to its end, or to where it had to stop.

    `get_kernel` is called where a guest is needed and there is no kernel for one; `open_store` once the
    agent is ready: what never begins leaves no file. The caller closes it. Raises `KeyboardInterrupt` if it
    was stopped before it began; `UserError` if nothing could be begun, or if the agent refuses to go on.
    Whatever was measured until then is in the store.
    """
    choice = choose(plan, options.place, rig.survey, get_kernel)
    if choice.place == GUEST and (caller := rig.as_caller()) is not rig:
        # A guest needs no root, and one of root's would read all of this machine.
        rig, choice = caller, with_survey(choice, caller.survey())
    check_space(choice.plan, choice.left_out, choice.survey)
    with Stop() as stop:
        session = rig.run(options.destroy)
        campaign = None
        try:
            if stop.asked:
                raise KeyboardInterrupt  # nothing was begun, so there is nothing to resume
            stop.watch(session)
            campaign = _Campaign.begin(choice, open_store(), options, session, describe)
            progress.begin(campaign.header(session.cleaned))
            return campaign.run(rig, session, stop, progress)
        finally:
            progress.finish()
            last = campaign.session if campaign and campaign.session else session
            if not last.close():
                rig.clean()


class _Campaign:
    """A campaign under way."""

    def __init__(
        self,
        choice: Choice,
        store: Store,
        options: Options,
        id: str,
        rounds_: list[Round],
        *,
        complete: set[int],
        resumed: bool,
    ) -> None:
        self.plan, self.store, self.options, self.id = choice.plan, store, options, id
        self.left_out, self.resumed, self.complete = choice.left_out, resumed, complete
        self.place = choice.why
        self.rounds = rounds_
        self.session: RunSession | None = None
        self.begun = resumed
        """Whether a trial was other than refused. Until then those are held: what is refused whole never
        began."""
        self.held: list[Callable[[], TrialReply]] = []
        self.outcome = Outcome(id)
        budget = estimate(choice.plan)
        self.how = budget.how
        self.setup = budget.setup
        self.tally = Tally(budget.seconds_per_round / len(choice.plan.cells))

    @classmethod
    def begin(
        cls,
        choice: Choice,
        store: Store,
        options: Options,
        session: RunSession,
        describe: dict[str, Any],
    ) -> _Campaign:
        """A new campaign, recorded; or the one to resume, if it is still the same."""
        plan, left_out = choice.plan, choice.left_out
        here = where(plan, choice.place, choice.survey, session.hello)
        name = options.name or plan.name
        if options.resume is not None:
            old = resuming.find(store, name, options.resume)
            resuming.check_place(old, choice.place)
            resuming.check_plan(old, plan)
            resuming.check_where(old, here, left_out)
            campaign = cls(
                choice,
                store,
                options,
                old.id,
                rounds(plan, old.seed, old.rounds),
                complete=store.complete_rounds(old.id),
                resumed=True,
            )
            for trial in store.trials(old.id):
                if trial.outcome == "ok":
                    campaign.tally.add(trial.cell, trial.ended - trial.started)
            return campaign
        number = options.rounds or plan.rounds
        seed = options.seed if options.seed is not None else plan.seed
        if seed is None:
            seed = secrets.randbits(31)
        id = store.start_campaign(
            name=name,
            question=plan.question,
            plan_text=plan.text,
            cells=[_stored(cell, len(plan.points)) for cell in plan.cells],
            points=[point.label for point in plan.points],
            reference=plan.reference,
            rounds=number,
            seed=seed,
            where=here,
            describe=describe,
            survey={**choice.survey, "chosen": {"place": choice.place, "why": choice.why}},
            hello=session.hello,
            version=__version__,
            origin=str(plan.path or plan.name),
        )
        for index, reason in left_out.items():
            store.exclude_cell(id, index, "unsupported", reason)
        all_rounds = rounds(plan, seed, number)
        return cls(choice, store, options, id, all_rounds, complete=set(), resumed=False)

    def header(self, cleaned: dict[str, Any]) -> Header:
        """What is told before the first trial; `cleaned` is the agent's event of that name."""
        cells = {cell.index: cell for cell in self.plan.cells}
        todo = [index for r in self._pending() for index in self._order(r)]
        notes = [f"left by an earlier agent, undone now: {what}" for what in cleaned.get("undone", [])]
        notes += [f"left by an earlier agent, not undone: {what}" for what in cleaned.get("failed", [])]
        references = [c for c in cells.values() if self.plan.reference.items() <= c.label.items()]
        if self.plan.reference and any(c.index in self.left_out for c in references):
            notes.append("the reference cannot run here: its ratios will be missing")
        return Header(
            question=self.plan.question,
            campaign=self.id,
            store=str(self.store.path),
            cells=len(cells) - len(self.left_out),
            points=len(self.plan.points),
            rounds=len(self.rounds),
            place=self.place,
            left_out=[(cells[i].name, sentence(reason)) for i, reason in self.left_out.items()],
            space=self.plan.space(),
            seconds=self.setup + self.tally.left(todo),
            how=self.how if not self.tally.seconds else "from the trials measured so far",
            notes=notes,
            resumed=len(self.complete) if self.resumed else -1,
        )

    def run(self, rig: Rig, session: RunSession, stop: Stop, progress: Progress) -> Outcome:
        """All rounds that are not complete yet."""
        self.session = session
        pending = self._pending()
        total = len(self.rounds) * (len(self.plan.cells) - len(self.left_out))
        number = total - sum(len(self._order(r)) for r in pending)
        later = [index for r in pending for index in self._order(r)]
        lost_in_a_row = 0
        refused: set[tuple[int, int]] = set()
        """Cell and round of each trial that was refused since the last one that was not."""
        try:
            for round_ in pending:
                attempt = self.store.next_attempt(self.id, round_.number)
                self.store.supersede_round(self.id, round_.number)
                for position, index in enumerate(self._order(round_), 1):
                    if stop.asked:
                        return self._end("interrupted", Exit.INTERRUPTED)
                    if not self.session.alive:
                        self.session = rig.run(self.options.destroy)
                        stop.watch(self.session)
                    number += 1
                    cell = self.plan.cells[index]
                    spec = cell.expand(round_.point_orders[index])
                    step = Step(
                        round_.number, len(self.rounds), number, total, cell.name, len(spec["phases"])
                    )
                    progress.trial(step, self.tally.left(later))
                    begun = time.time()
                    trial = str(uuid.uuid4())
                    reply = self.session.trial(
                        trial,
                        round_.seed,
                        spec,
                        round=round_.number,
                        timeout=float(spec["timeout"]),
                        on_event=progress.event,
                    )
                    outcome = self._record(trial, reply, index, round_.number, position, attempt, begun)
                    refused = refused | {(index, round_.number)} if reply.refusal else set()
                    later.pop(0)
                    if outcome.outcome == "ok":
                        self.tally.add(index, time.time() - begun)
                    progress.done(
                        step,
                        outcome.outcome,
                        sentence(outcome.reason) if outcome.reason else None,
                        _doubts(reply),
                        self.tally.left(later),
                    )
                    if reply.refusal and {cell for cell, _ in refused} >= set(self._order(round_)):
                        # Not one cell is refused, but all: that is the rig, and a resume repeats them.
                        for each in {n for _, n in refused} if self.begun else ():
                            self.store.supersede_round(self.id, each)
                        raise reply.refusal
                    if outcome.outcome == "teardown_failed":
                        return self._end("stopped", Exit.TEARDOWN, sentence(outcome.reason))
                    lost_in_a_row = lost_in_a_row + 1 if outcome.outcome == "lost" else 0
                    if lost_in_a_row == LOST_IN_A_ROW and not stop.asked:
                        return self._end("stopped", Exit.AGENT, sentence(outcome.reason))
            if stop.asked and self.store.complete_rounds(self.id) < {r.number for r in self.rounds}:
                return self._end("interrupted", Exit.INTERRUPTED)
            return self._finish()
        except UserError:
            with contextlib.suppress(UserError):  # the store itself may be what failed
                # Refused in its first trial, it never began; one that is resumed had begun before.
                if self.resumed or not self.store.discard_empty(self.id):
                    self._end("stopped", Exit.AGENT)
            raise

    def _finish(self) -> Outcome:
        """All rounds are through. A round that lost a trial is not complete and can be resumed."""
        whole = self.store.complete_rounds(self.id) >= {r.number for r in self.rounds}
        bad = [t for t in self.store.trials(self.id) if t.outcome != "ok"]
        status = "complete" if whole else "incomplete"
        return self._end(status, Exit.INCOMPLETE if bad or not whole else Exit.OK)

    def _end(self, status: str, code: Exit, why: str | None = None) -> Outcome:
        self._write_held()
        self.store.finish(self.id, status)
        self.outcome.status, self.outcome.exit, self.outcome.why = status, code, why
        return self.outcome

    def _pending(self) -> list[Round]:
        return [r for r in self.rounds if r.number not in self.complete]

    def _order(self, round_: Round) -> list[int]:
        return [index for index in round_.order if index not in self.left_out]

    def _record(
        self, trial: str, reply: TrialReply, cell: int, round: int, position: int, attempt: int, begun: float
    ) -> TrialReply:
        """Writes a trial to the store, or holds it (see `begun`). One whose artefacts are not what they claim
        is lost."""
        ended = time.time()

        def write(reply: TrialReply) -> None:
            self.store.record_trial(
                self.id,
                trial=trial,
                cell=cell,
                round=round,
                position=position,
                attempt=attempt,
                outcome=reply.outcome,
                reason=reply.reason,
                flags=_flags(reply),
                started=begun,
                ended=ended,
                events=reply.events,
            )

        def record(reply: TrialReply = reply) -> TrialReply:
            try:
                write(reply)
            except UserError as error:
                if error.code != Exit.AGENT:
                    raise
                kept = [event for event in reply.events if event["event"] != "artefact"]
                reply = TrialReply("lost", kept, {"message": error.message})
                write(reply)
            self.outcome.counts[reply.outcome] = self.outcome.counts.get(reply.outcome, 0) + 1
            return reply

        self.begun = self.begun or reply.refusal is None
        if not self.begun:
            self.held.append(record)
            return reply
        self._write_held()
        return record()

    def _write_held(self) -> None:
        for write in self.held:
            write()
        self.held.clear()


def _stored(cell: Cell, points: int) -> dict[str, Any]:
    return {
        "index": cell.index,
        "name": cell.name,
        "label": cell.label,
        "spec": cell.expand(range(points)),
        "what": cell.what,
    }


def _flags(reply: TrialReply) -> list[dict[str, Any]]:
    """Doubts of the trial as a whole. Those of its phases are in their events."""
    end = reply.events[-1] if reply.events else {}
    flags = end.get("flags") if end.get("event") == "end" else None
    return flags if isinstance(flags, list) else []


def _doubts(reply: TrialReply) -> list[str]:
    """Every doubt of the trial and its phases, once each."""
    found: dict[str, None] = {}
    for event in reply.events:
        for flag in event.get("flags") or []:
            found[str(flag.get("doubt"))] = None
    return list(found)
