"""The record: what goes in comes out, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdyno.errors import Exit, UserError
from fsdyno.store import Store
from tests.store.fixtures import METRICS, artefact, phase_end, record, start


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "s.sqlite", create=True)


def test_a_campaign_comes_back_as_it_was_started(store: Store) -> None:
    campaign = start(store, ["a", "b"], seed=7, rounds=3)
    info = store.campaign()
    assert (info.id, info.seed, info.rounds, info.status, info.source) == (
        campaign,
        7,
        3,
        "running",
        "measured",
    )
    assert [cell.label for cell in info.cells] == [{"filesystem": "a"}, {"filesystem": "b"}]
    assert info.cells[0].spec["filesystem"] == {"type": "a"}
    assert info.metrics["wall_seconds"].direction == "lower"
    assert set(info.metrics) == {metric["name"] for metric in METRICS}
    store.finish(campaign, "complete")
    assert store.campaign(campaign[:6]).status == "complete"


def test_the_latest_campaign_is_the_default(store: Store) -> None:
    start(store, ["a"])
    second = start(store, ["a"])
    assert store.campaign().id == second
    assert [c.id for c in store.campaigns()][-1] == second


def test_where_has_one_hash_whatever_the_order_of_its_keys(store: Store) -> None:
    start(store, ["a"], where={"kernel": "6.1", "engine": 1})
    start(store, ["a"], where={"engine": 1, "kernel": "6.1"})
    start(store, ["a"], where={"engine": 2, "kernel": "6.1"})
    one, two, three = (c.where_hash for c in store.campaigns())
    assert one == two != three


def test_an_unknown_or_ambiguous_name_is_an_error_with_advice(store: Store) -> None:
    with pytest.raises(UserError, match="no campaign yet") as none_yet:
        store.campaign()
    assert none_yet.value.code is Exit.STORE
    start(store, ["a"])
    with pytest.raises(UserError, match="no campaign 'zz'"):
        store.campaign("zz")
    start(store, ["a"])
    with pytest.raises(UserError, match="more than one campaign"):
        store.campaign("")


def test_events_come_back_as_they_came_but_for_the_bytes_of_artefacts(store: Store) -> None:
    campaign = start(store, ["a"])
    files = artefact("mkfs stdout", b"made it\n", parts=2)
    trial = record(store, campaign, 0, 0, [phase_end(0, "mkfs", "mkfs", 0.5), *files])
    events = store.events(trial)
    assert [e["event"] for e in events] == ["phase_end", "artefact", "artefact"]
    assert events[0]["wall"] == 0.5
    assert "data" not in events[1]
    assert store.artefact(events[1]["sha256"]) == b"made it\n"
    assert store.artefact(events[1]["sha256"][:10]) == b"made it\n"
    assert store.artefacts(trial) == [("mkfs stdout", events[1]["sha256"])]


def test_equal_artefacts_are_stored_once(store: Store) -> None:
    campaign = start(store, ["a", "b"])
    for cell in (0, 1):
        record(store, campaign, cell, 0, artefact("stdout", b"same"))
    assert store._connection.execute("SELECT count(*) FROM artefact").fetchone() == (1,)


def test_an_artefact_that_lies_about_its_digest_is_refused_and_nothing_is_stored(store: Store) -> None:
    campaign = start(store, ["a"])
    [piece] = artefact("stdout", b"what was said")
    piece["data"] = artefact("x", b"something else")[0]["data"]
    with pytest.raises(UserError, match="digest") as error:
        record(store, campaign, 0, 0, [phase_end(0, "mkfs", "mkfs", 1.0), piece])
    assert error.value.code is Exit.AGENT
    assert store.trials(campaign) == []
    assert store.samples(campaign) == []


def test_missing_pieces_are_an_error_only_if_the_trial_ended_well(store: Store) -> None:
    campaign = start(store, ["a"])
    first, _ = artefact("stdout", b"never finished", parts=2)
    with pytest.raises(UserError, match="missing pieces"):
        record(store, campaign, 0, 0, [first])
    trial = record(store, campaign, 0, 0, [first], outcome="lost")
    assert store.artefacts(trial) == []


def test_a_trial_is_recorded_whole_or_not_at_all(store: Store) -> None:
    campaign = start(store, ["a"])
    trial = record(store, campaign, 0, 0, [phase_end(0, "mkfs", "mkfs", 1.0)])
    with pytest.raises(UserError):
        record(store, campaign, 0, 1, [phase_end(0, "mkfs", "mkfs", 2.0)], trial=trial)
    assert len(store.trials(campaign)) == 1
    assert [list(q.values) for q in store.samples(campaign, metrics=["wall_seconds"])] == [[1.0]]


def test_a_round_is_complete_when_every_cell_that_can_run_has_had_its_turn(store: Store) -> None:
    campaign = start(store, ["a", "b", "c"])
    store.exclude_cell(campaign, 2, "unsupported", {"message": "no driver", "advice": "another kernel"})
    record(store, campaign, 0, 0, [])
    assert store.complete_rounds(campaign) == set()
    record(store, campaign, 1, 0, [], outcome="failed")
    assert store.complete_rounds(campaign) == {0}
    record(store, campaign, 0, 1, [])
    record(store, campaign, 1, 1, [], outcome="cancelled")
    assert store.complete_rounds(campaign) == {0}
    excluded = store.campaign().cells[2]
    assert (excluded.excluded, excluded.reason) == (
        "unsupported",
        {"message": "no driver", "advice": "another kernel"},
    )


def test_a_superseded_round_stays_in_the_record_but_counts_no_more(store: Store) -> None:
    campaign = start(store, ["a"])
    record(store, campaign, 0, 0, [phase_end(0, "mkfs", "mkfs", 1.0)])
    assert store.next_attempt(campaign, 0) == 2
    assert store.supersede_round(campaign, 0) == 1
    assert store.complete_rounds(campaign) == set()
    record(store, campaign, 0, 0, [phase_end(0, "mkfs", "mkfs", 2.0)], attempt=2)
    assert [t.attempt for t in store.trials(campaign)] == [2]
    assert [t.attempt for t in store.trials(campaign, include_superseded=True)] == [1, 2]
    [wall] = store.samples(campaign, metrics=["wall_seconds"])
    assert list(wall.values) == [2.0]


@pytest.mark.parametrize("outcome", ["cancelled", "lost", "teardown_failed"])
def test_a_trial_that_was_stopped_gives_no_samples_to_a_report(store: Store, outcome: str) -> None:
    campaign = start(store, ["a"])
    record(store, campaign, 0, 0, [phase_end(0, "mkfs", "mkfs", 1.0)], outcome=outcome)
    assert store.samples(campaign) == []


def test_samples_say_which_cell_round_and_trial_they_are_of(store: Store) -> None:
    campaign = start(store, ["a", "b"])
    ids = {}
    for rnd in (0, 1):
        for cell in (1, 0):
            ids[cell, rnd] = record(
                store, campaign, cell, rnd, [phase_end(0, "mkfs", "mkfs", 10.0 * rnd + cell)]
            )
    [wall] = store.samples(campaign, metrics=["wall_seconds"])
    assert list(zip(wall.cells, wall.rounds, wall.values, strict=True)) == [
        (1, 0, 1),
        (0, 0, 0),
        (1, 1, 11),
        (0, 1, 10),
    ]
    numbers = {t.n: t.id for t in store.trials(campaign)}
    assert [numbers[n] for n in wall.trials] == [ids[1, 0], ids[0, 0], ids[1, 1], ids[0, 1]]


def test_rebuilding_gives_the_same_samples(store: Store) -> None:
    campaign = start(store, ["a"])
    flag = {"doubt": "kernel_log", "reason": "an I/O error was logged"}
    event = phase_end(0, "create", "workload", 1.5, flags=[flag], facts={"driver": "ext4"})
    trial = record(store, campaign, 0, 0, [event])
    before = store.trial_samples(trial)
    store._connection.execute("UPDATE sample SET value = 0")
    store._connection.execute("DELETE FROM phase_note")
    seen: list[tuple[int, int]] = []
    counts = store.rebuild(lambda done, total: seen.append((done, total)))
    assert store.trial_samples(trial) == before
    assert counts == {"trials": 1, "samples": len(before)}
    assert seen == [(1, 1)]
    assert [note.flags for note in store.phase_notes(campaign)] == [[flag]]
    assert store.trial(trial[:8]).driver == "ext4"
