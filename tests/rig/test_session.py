"""What this side does when the agent lies, falls silent, dies or refuses: the protocol's fault model."""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fsdyno.errors import Exit, UserError
from fsdyno.rig import Limits, Rig, RunSession, TrialReply

SPEC: dict[str, Any] = {
    "stack": {"devices": [{"file": {"size": 1 << 20}}]},
    "filesystem": {"type": "any"},
    "datasets": {"small": {"files": 1000, "size": 4096}},
    "phases": [{"mkfs": {}}, {"workload": {"tree": {"op": "create", "dataset": "small", "threads": 2}}}],
}
LIMITS = Limits(hello=10, silence=1.5, grace=2)


def rig(*behave: str, limits: Limits = LIMITS) -> Rig:
    return Rig([sys.executable, "-m", "fsdyno.rig.double", *behave], privileged=False, limits=limits)


Open = Callable[..., RunSession]


@pytest.fixture
def opened() -> Iterator[Open]:
    sessions = []

    def start(*behave: str, limits: Limits = LIMITS) -> RunSession:
        sessions.append(rig(*behave, limits=limits).run())
        return sessions[-1]

    yield start
    for session in sessions:
        session.kill()


def run(session: RunSession, spec: dict[str, Any] = SPEC, seed: int = 1, timeout: float = 30) -> TrialReply:
    return session.trial(str(uuid.uuid4()), seed, spec, timeout=timeout)


def dead(session: RunSession) -> bool:
    try:
        os.killpg(session.hello["pid"], 0)
    except ProcessLookupError:
        return True
    return False


def test_trials_run_one_after_another_and_the_agent_goes_by_itself(opened: Open) -> None:
    session = opened()
    first, second = run(session), run(session)
    assert (first.outcome, second.outcome) == ("ok", "ok")
    assert [e["event"] for e in first.events] == [
        "trial_start", "built", "phase_start", "phase_end", "phase_start", "phase_end", "end",
    ]  # fmt: skip
    assert session.close() and dead(session)


def test_the_same_seed_and_spec_give_the_same_numbers_and_an_effect_shows(opened: Open) -> None:
    def speed(reply: TrialReply) -> float:
        end = next(e for e in reply.events if e["event"] == "phase_end" and e["index"] == 1)
        return float(end["workload"]["operations"][0]["count"] / end["wall"])

    plain = opened()
    faster = opened("--effects", '{"any": 1.5}')
    assert speed(run(plain)) == speed(run(plain))
    assert speed(run(faster)) / speed(run(plain)) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("fault", "evidence"),
    [
        ("garbage", "no JSON: mke2fs"),
        ("truncated", "cut off"),
        ("silent", "said nothing for"),
        ("dies", "SIGKILL"),
        ("wrong_trial", "00000000-0000"),
        ("gap", "lines are missing"),
        ("no_end", "ended (exit 0)"),
        ("huge", "longer than 16 MiB"),
    ],
)
def test_a_broken_protocol_loses_the_trial_with_evidence_and_ends_the_agent(
    opened: Open, fault: str, evidence: str
) -> None:
    session = opened("--behave", f"{fault}@1")
    assert run(session).outcome == "ok"
    lost = run(session)
    assert lost.outcome == "lost" and lost.reason
    assert evidence in lost.reason["message"]
    assert lost.events[0]["event"] == "trial_start", "what came before the fault is kept"
    assert not session.alive and dead(session)


def test_the_last_words_of_a_dead_agent_are_kept(opened: Open) -> None:
    lost = run(opened("--behave", "dies"))
    assert lost.reason and "told to die" in lost.reason["advice"]


def test_events_of_an_unknown_kind_are_kept_and_do_no_harm(opened: Open) -> None:
    reply = run(opened("--behave", "new_kind"))
    assert reply.outcome == "ok"
    assert any(e["event"] == "tea_break" for e in reply.events)


@pytest.mark.parametrize(
    ("fault", "code"), [("busy", Exit.BUSY), ("no_root", Exit.CANNOT), ("unsafe", Exit.UNSAFE)]
)
def test_a_refusal_is_known_before_the_first_trial(fault: str, code: Exit) -> None:
    with pytest.raises(UserError) as refused:
        rig("--behave", fault).run()
    assert refused.value.code == code


def test_a_trial_that_is_refused_ends_with_its_reason_and_the_agent_goes_on(opened: Open) -> None:
    session = opened("--behave", "refuses_trial@1")
    replies = [run(session) for _ in range(3)]
    assert [reply.outcome for reply in replies] == ["ok", "failed", "ok"]
    refused = replies[1]
    assert refused.reason == {"message": "the folder is not writable", "advice": "name another"}
    assert refused.refusal is not None and refused.refusal.code == Exit.CANNOT
    assert refused.events[-1]["event"] == "end"
    assert replies[0].refusal is None and replies[2].refusal is None


def test_a_refusal_that_no_end_follows_is_the_rigs_own(opened: Open) -> None:
    session = opened("--behave", "refuses_and_goes")
    with pytest.raises(UserError, match="not writable") as refused:
        run(session)
    assert refused.value.code == Exit.CANNOT and refused.value.advice == "name another"
    assert not session.alive and dead(session)


@pytest.mark.parametrize("fault", ["wrong_protocol", "no_hello"])
def test_an_agent_that_does_not_say_hello_properly_is_not_used(fault: str) -> None:
    with pytest.raises(UserError) as broken:
        rig("--behave", fault).run()
    assert broken.value.code == Exit.AGENT


def test_a_cancel_ends_the_trial_after_its_stack_is_down(opened: Open) -> None:
    session = opened("--pace", "20")
    begun = time.monotonic()
    reply = session.trial(
        str(uuid.uuid4()),
        1,
        SPEC,
        timeout=60,
        on_event=lambda e: session.cancel() if e["event"] == "phase_start" else None,
    )
    assert reply.outcome == "cancelled" and session.alive
    assert time.monotonic() - begun < 20, "the phase was not waited for"


def test_an_agent_that_ignores_a_cancel_is_killed_after_a_grace(opened: Open) -> None:
    session = opened("--behave", "deaf")
    session.cancel()
    lost = run(session)
    assert lost.outcome == "lost" and lost.reason and "after it was cancelled" in lost.reason["message"]
    assert dead(session)


def test_a_trial_beyond_its_deadline_is_lost_though_heartbeats_come(opened: Open) -> None:
    lost = run(opened("--behave", "deaf"), timeout=0)
    assert lost.outcome == "lost" and lost.reason and "within its time" in lost.reason["message"]


def test_an_agent_that_stays_after_its_input_ended_is_killed(opened: Open) -> None:
    session = opened("--behave", "stuck")
    assert run(session).outcome == "ok"
    assert not session.close() and dead(session)


def test_a_binary_that_is_no_agent_is_an_error_with_its_name() -> None:
    with pytest.raises(UserError) as error:
        Rig(["/nonexistent/agent"], privileged=False).survey()
    assert error.value.code == Exit.AGENT and "/nonexistent/agent" in str(error.value)


def test_a_verb_that_fails_says_the_agents_last_line() -> None:
    with pytest.raises(UserError) as error:
        Rig(["ls", "--no-such-option"], privileged=False).describe()
    assert error.value.code == Exit.AGENT and "ls --help" in str(error.value)


def test_an_agent_that_somebody_killed_between_trials_did_not_go_by_itself(opened: Open) -> None:
    session = opened()
    assert run(session).outcome == "ok"
    os.kill(session.hello["pid"], signal.SIGKILL)
    assert not session.close() and dead(session)
