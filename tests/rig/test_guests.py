"""Two machines in one stream: the rig, and guests that boot, speak with numbers of their own, and die."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fsdyno.rig import Event, Limits, Rig, RunSession, TrialReply
from fsdyno.rig.double.agent import SLOW_BOOT
from tests.rig.test_session import SPEC

LIMITS = Limits(hello=10, silence=1.5, grace=2)
IN_GUEST = {**SPEC, "machine": {"memory": 1 << 30, "cpus": 2}}
Open = Callable[..., RunSession]


@pytest.fixture
def opened() -> Iterator[Open]:
    sessions = []

    def start(*behave: str) -> RunSession:
        command = [sys.executable, "-m", "fsdyno.rig.double", *behave]
        sessions.append(Rig(command, privileged=False, limits=LIMITS).run())
        return sessions[-1]

    yield start
    for session in sessions:
        session.kill()


def run(session: RunSession, round: int = 1, **options: Any) -> TrialReply:
    return session.trial(str(uuid.uuid4()), 1, IN_GUEST, round=round, timeout=30, **options)


def boots(reply: TrialReply) -> list[str]:
    """The guests that speak in a trial, in the order of their first words."""
    return list(dict.fromkeys(event["boot"] for event in reply.events if event["from"] == "guest"))


def test_a_guest_says_hello_in_the_middle_of_the_trial_that_it_is_booted_for(opened: Open) -> None:
    session = opened()
    first, second = run(session), run(session)
    assert (first.outcome, second.outcome) == ("ok", "ok")
    said = [f"{event['from']} {event['event']}" for event in first.events]
    assert said[:4] == ["rig trial_start", "rig heartbeat", "guest hello", "rig built"]
    assert said[4] == "guest built"
    assert said[-1] == "rig end"
    assert "hello" not in [event["event"] for event in second.events], "the same guest served on"


def test_each_boot_counts_its_own_events(opened: Open) -> None:
    session = opened()
    one, same, other = run(session, 1), run(session, 1), run(session, 2)
    assert [reply.outcome for reply in (one, same, other)] == ["ok"] * 3
    assert boots(one) == boots(same) != boots(other)
    numbers = [event["seq"] for event in other.events if event["from"] == "guest"]
    assert numbers == list(range(len(numbers)))


def test_a_slow_boot_is_no_silence_and_is_shown(opened: Open) -> None:
    seen: list[Event] = []
    assert LIMITS.silence < SLOW_BOOT
    assert run(opened("--behave", "slow_boot"), on_event=seen.append).outcome == "ok"
    doing = [event["doing"] for event in seen if event["event"] == "heartbeat" and event.get("doing")]
    assert set(doing) == {"booting the guest"}
    assert len(doing) > 1


def test_a_line_missing_from_a_guest_is_a_line_missing(opened: Open) -> None:
    session = opened("--behave", "gap@1")
    assert run(session).outcome == "ok"
    lost = run(session)
    assert lost.outcome == "lost" and lost.reason
    assert "lines are missing" in lost.reason["message"]


def test_a_trial_ends_when_its_rig_says_so_and_not_its_guest(opened: Open) -> None:
    session = opened("--behave", "guest_ends")
    reply = run(session)
    assert reply.outcome == "ok"
    assert [event["from"] for event in reply.events if event["event"] == "end"] == ["guest", "rig"]
    assert run(session).outcome == "ok", "nothing of the first trial is left in the stream"


def test_what_a_guest_refuses_is_the_end_of_its_trial_only(opened: Open) -> None:
    session = opened("--behave", "guest_refuses@1")
    first, refused, third = run(session), run(session), run(session)
    assert [reply.outcome for reply in (first, refused, third)] == ["ok", "failed", "ok"]
    assert refused.reason and "not writable" in refused.reason["message"]
    assert [event["from"] for event in refused.events if event["event"] == "error"] == ["guest"]
    assert refused.refusal is None, "the rig has nothing against it"


def test_a_guest_that_dies_has_an_outcome_and_the_agent_goes_on(opened: Open) -> None:
    session = opened("--behave", "guest_dies")
    died, next_one = run(session), run(session)
    assert died.outcome == "failed" and died.reason
    assert "Kernel panic" in died.reason["message"]
    assert (next_one.outcome, session.alive) == ("ok", True)
    assert boots(died) != boots(next_one)
