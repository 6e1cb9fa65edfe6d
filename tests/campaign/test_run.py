"""A campaign from its first round to its last, and what becomes of trials that go wrong."""

from __future__ import annotations

import copy
import dataclasses
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fsdyno.campaign import Outcome
from fsdyno.campaign.resume import LATEST
from fsdyno.errors import Exit, UserError
from fsdyno.plan import Plan
from fsdyno.rig import Rig
from fsdyno.store import Store
from tests.campaign import bench


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "s.sqlite", create=True) as opened:
        yield opened


def run(
    plan: Plan, rig: Rig, store: Store, notebook: bench.Notebook | None = None, **options: Any
) -> Outcome:
    return bench.run(plan, rig, store, notebook or bench.Notebook(), **options)


def turns(store: Store, campaign: str) -> Counter[tuple[int, int]]:
    """How often each (round, cell) has a trial that counts."""
    return Counter((t.round, t.cell) for t in store.trials(campaign) if t.outcome == "ok")


EVERY_CELL_ONCE = Counter({(r, c): 1 for r in (1, 2, 3) for c in (0, 1, 2)})


def test_every_cell_runs_once_in_each_round_in_another_order(tmp_path: Path, store: Store) -> None:
    plan = bench.plan(rounds=6)
    outcome = run(plan, bench.rig(tmp_path), store)
    assert (outcome.status, outcome.exit) == ("complete", Exit.OK)
    trials = store.trials(outcome.campaign)
    assert Counter((t.round, t.cell) for t in trials) == Counter(
        {(r, c): 1 for r in range(1, 7) for c in range(3)}
    )
    orders = {tuple(t.cell for t in trials if t.round == r) for r in range(1, 7)}
    assert len(orders) > 1, "the order within a round is random"


def test_the_same_seed_gives_the_same_order_and_the_same_data_for_all_cells_of_a_round(
    tmp_path: Path, store: Store
) -> None:
    def order(seed: int) -> list[int]:
        outcome = run(bench.plan(), bench.rig(tmp_path), store, seed=seed)
        return [t.cell for t in store.trials(outcome.campaign)]

    assert order(1) == order(1)
    assert order(1) != order(3)


def test_the_known_effect_comes_out_of_the_store(tmp_path: Path, store: Store) -> None:
    rig = bench.rig(tmp_path, "--effects", '{"\\"beta\\"": 2.0}')
    outcome = run(bench.plan(rounds=6), rig, store)
    [speed] = store.samples(outcome.campaign, metrics=["operations_per_second"], phases=["create"])
    ratio = speed.values[speed.cells == 1].mean() / speed.values[speed.cells == 0].mean()
    assert ratio == pytest.approx(2.0, rel=0.1)


def test_rounds_and_name_of_the_command_line_win(tmp_path: Path, store: Store) -> None:
    outcome = run(bench.plan(rounds=6), bench.rig(tmp_path), store, rounds=1, name="short")
    found = store.campaign(outcome.campaign)
    assert (found.rounds, found.name, len(store.trials(found.id))) == (1, "short", 3)


def test_what_the_rig_cannot_is_recorded_with_its_reason_before_the_first_round(
    tmp_path: Path, store: Store
) -> None:
    survey = bench.survey()
    reason = {"message": "this kernel has no beta", "advice": "install the package beta-progs"}
    survey["filesystems"][1]["places"]["native"] = {"able": False, "reason": reason}
    notebook = bench.Notebook()
    outcome = run(bench.plan(), bench.rig(tmp_path, survey=survey), store, notebook)
    assert outcome.exit == Exit.OK
    beta = store.campaign(outcome.campaign).cells[1]
    assert (beta.excluded, beta.reason) == ("unsupported", reason)
    assert all(t.cell != 1 for t in store.trials(outcome.campaign))
    assert notebook.headers[0].left_out == [
        ("beta", "this kernel has no beta (install the package beta-progs)")
    ]
    assert notebook.headers[0].notes == []


def test_a_reference_that_cannot_run_is_said(tmp_path: Path, store: Store) -> None:
    survey = bench.survey()
    survey["filesystems"][0]["places"]["native"] = {"able": False, "reason": {"message": "no"}}
    notebook = bench.Notebook()
    run(bench.plan(rounds=1), bench.rig(tmp_path, survey=survey), store, notebook)
    assert "ratios will be missing" in notebook.headers[0].notes[0]


def test_a_missing_checker_leaves_out_only_cells_that_check(tmp_path: Path, store: Store) -> None:
    survey = bench.survey()
    survey["filesystems"][1]["tools"] = {"fsck.beta": "check"}
    survey["tools"]["fsck.beta"] = {"package": "beta-progs"}
    rig = bench.rig(tmp_path, survey=survey)
    assert store.campaign(run(bench.plan(rounds=1), rig, store).campaign).cells[1].excluded is None
    plan = bench.plan(rounds=1)
    for cell in plan.cells:
        cell.spec["phases"].append({"check": {"mode": "full"}})
    beta = store.campaign(run(plan, rig, store).campaign).cells[1]
    assert beta.excluded == "unsupported" and beta.reason
    assert "beta-progs" in beta.reason["advice"]


def test_nothing_to_run_is_an_error_with_the_reason(tmp_path: Path, store: Store) -> None:
    survey = bench.survey()
    survey["places"]["native"] = {"able": False, "reason": {"message": "needs root", "advice": "use sudo"}}
    with pytest.raises(UserError) as error:
        run(bench.plan(), bench.rig(tmp_path, survey=survey), store)
    assert (error.value.code, error.value.message, error.value.advice) == (
        Exit.CANNOT,
        "needs root",
        "use sudo",
    )
    assert store.campaigns() == []


def test_a_plan_that_does_not_fit_is_refused_with_both_sizes(tmp_path: Path, store: Store) -> None:
    survey = bench.survey()
    survey["folders"]["free"] = 1000 << 10
    with pytest.raises(UserError) as error:
        run(bench.plan(), bench.rig(tmp_path, survey=survey), store)
    assert error.value.code == Exit.CANNOT
    assert "1 MiB" in error.value.message and "1000 KiB" in error.value.message


@pytest.mark.parametrize(
    ("fault", "code"), [("busy", Exit.BUSY), ("no_root", Exit.CANNOT), ("unsafe", Exit.UNSAFE)]
)
def test_a_refusal_leaves_no_campaign(tmp_path: Path, store: Store, fault: str, code: Exit) -> None:
    with pytest.raises(UserError) as error:
        run(bench.plan(), bench.rig(tmp_path, "--behave", fault), store)
    assert error.value.code == code
    assert store.campaigns() == []


@pytest.mark.parametrize("trial", [0, 4])
def test_a_trial_that_is_refused_is_recorded_with_its_reason_and_costs_no_other(
    tmp_path: Path, store: Store, trial: int
) -> None:
    outcome = run(bench.plan(), bench.rig(tmp_path, "--behave", f"refuses_trial@{trial}"), store)
    assert (outcome.status, outcome.exit) == ("complete", Exit.INCOMPLETE)
    assert outcome.counts == {"ok": 8, "failed": 1}
    found = store.trials(outcome.campaign)
    assert [n for n, t in enumerate(found) if t.outcome == "failed"] == [trial]
    assert found[trial].reason == {"message": "the folder is not writable", "advice": "name another"}
    assert found[trial].started <= found[trial].ended <= found[trial + 1].started


def refused_whole(tmp_path: Path, store: Store, trial: int, **options: Any) -> None:
    with pytest.raises(UserError, match="not writable") as error:
        run(bench.plan(), bench.rig(tmp_path, "--behave", f"refuses_all@{trial}"), store, **options)
    assert error.value.code == Exit.CANNOT


def test_a_campaign_of_which_every_cell_is_refused_never_began(tmp_path: Path, store: Store) -> None:
    refused_whole(tmp_path, store, 0)
    assert store.campaigns() == []


def test_once_every_cell_is_refused_a_campaign_stops_with_all_on_record(tmp_path: Path, store: Store) -> None:
    refused_whole(tmp_path, store, 4)
    [stopped] = store.campaigns()
    assert stopped.status == "stopped"
    found = store.trials(stopped.id, include_superseded=True)
    outcomes = [t.outcome for t in found]
    assert outcomes[:4] == ["ok"] * 4 and set(outcomes[4:]) == {"failed"}
    assert {t.cell for t in found[4:]} == {0, 1, 2}
    resumed = run(bench.plan(), bench.rig(tmp_path), store, resume=LATEST)
    assert (resumed.status, resumed.exit) == ("complete", Exit.OK)
    assert turns(store, stopped.id) == EVERY_CELL_ONCE, "what was refused is repeated"


def test_a_resumed_campaign_had_begun_before_it_was_refused(tmp_path: Path, store: Store) -> None:
    interrupted(tmp_path, store)
    refused_whole(tmp_path, store, 0, resume=LATEST)
    assert [c.status for c in store.campaigns()] == ["stopped"]


def test_what_was_refused_before_ctrl_c_is_on_record(tmp_path: Path, store: Store) -> None:
    """The first trial is refused and held; the second is cancelled."""
    rig = bench.rig(tmp_path, "--behave", "refuses_trial", "--pace", "0.02")
    outcome = run(bench.plan(), rig, store, interrupt_in(trial=2))
    assert outcome.counts == {"failed": 1, "cancelled": 1}
    assert [t.outcome for t in store.trials(outcome.campaign)] == ["failed", "cancelled"]


def test_a_lost_trial_is_recorded_and_a_new_agent_goes_on(tmp_path: Path, store: Store) -> None:
    # Each agent dies in its second trial; the campaign survives them all.
    outcome = run(bench.plan(), bench.rig(tmp_path, "--behave", "dies@1"), store)
    assert (outcome.status, outcome.exit) == ("incomplete", Exit.INCOMPLETE)
    assert outcome.counts == {"ok": 5, "lost": 4}
    lost = [t for t in store.trials(outcome.campaign) if t.outcome == "lost"]
    assert lost[0].reason and "SIGKILL" in lost[0].reason["message"]


def test_an_agent_that_always_dies_stops_the_campaign(tmp_path: Path, store: Store) -> None:
    outcome = run(bench.plan(), bench.rig(tmp_path, "--behave", "dies"), store)
    assert (outcome.status, outcome.exit) == ("stopped", Exit.AGENT)
    assert outcome.counts == {"lost": 3} and outcome.why and "SIGKILL" in outcome.why


def test_a_failed_trial_is_a_result_and_the_campaign_goes_on(tmp_path: Path, store: Store) -> None:
    outcome = run(bench.plan(), bench.rig(tmp_path, "--behave", "fails@4"), store)
    assert (outcome.status, outcome.exit) == ("complete", Exit.INCOMPLETE)
    assert outcome.counts == {"ok": 8, "failed": 1}


def test_flags_of_a_trial_are_kept_beside_its_outcome(tmp_path: Path, store: Store) -> None:
    outcome = run(bench.plan(), bench.rig(tmp_path, "--behave", "suspect@0"), store)
    flagged = [t for t in store.trials(outcome.campaign) if t.flags]
    assert [(t.outcome, t.flags[0]["doubt"]) for t in flagged] == [("ok", "stolen_time")]


def test_a_stack_that_stays_stops_the_rig(tmp_path: Path, store: Store) -> None:
    outcome = run(bench.plan(), bench.rig(tmp_path, "--behave", "teardown_failed@1"), store)
    assert (outcome.status, outcome.exit) == ("stopped", Exit.TEARDOWN)
    assert outcome.counts == {"ok": 1, "teardown_failed": 1}


def interrupt_in(trial: int, times: int = 1) -> bench.Notebook:
    """Presses Ctrl-C in the first phase of the n-th trial."""
    notebook = bench.Notebook()

    def press(event: dict[str, Any]) -> None:
        if event["event"] == "phase_start" and event["index"] == 0 and len(notebook.steps) == trial:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)

    notebook.on_event = press
    return notebook


def test_ctrl_c_ends_the_trial_and_a_resume_repeats_its_round_whole(tmp_path: Path, store: Store) -> None:
    rig = bench.rig(tmp_path, "--pace", "0.02")
    notebook = interrupt_in(trial=5)  # the second of the second round
    first = run(bench.plan(), rig, store, notebook)
    assert (first.status, first.exit) == ("interrupted", Exit.INTERRUPTED)
    assert notebook.ends[-1][1] == "cancelled" and notebook.finished == 1
    before = store.trials(first.campaign)

    notebook = bench.Notebook()
    second = run(bench.plan(), rig, store, notebook, resume=LATEST)
    assert (second.campaign, second.status, second.exit) == (first.campaign, "complete", Exit.OK)
    assert turns(store, first.campaign) == EVERY_CELL_ONCE
    assert second.counts == {"ok": 6}, "the complete first round did not run again"
    everything = store.trials(first.campaign, include_superseded=True)
    assert {t.id for t in before} <= {t.id for t in everything}, "nothing recorded is lost"
    assert {t.attempt for t in everything if t.round == 2 and not t.superseded} == {2}
    assert notebook.headers[0].resumed == 1 and notebook.steps[0].number == 4


def test_a_second_ctrl_c_kills_the_agent_and_is_still_safe(tmp_path: Path, store: Store) -> None:
    rig, before = bench.rig(tmp_path, "--pace", "30"), signal.getsignal(signal.SIGINT)
    outcome = run(bench.plan(), rig, store, interrupt_in(trial=1, times=2))
    assert (outcome.status, outcome.exit) == ("interrupted", Exit.INTERRUPTED)
    assert outcome.counts == {"cancelled": 1}
    assert signal.getsignal(signal.SIGINT) is before, "Ctrl-C is what it was"


def interrupted(tmp_path: Path, store: Store) -> str:
    return run(bench.plan(), bench.rig(tmp_path, "--pace", "0.02"), store, interrupt_in(trial=2)).campaign


def test_a_resume_of_a_changed_plan_is_refused_and_names_the_cell(tmp_path: Path, store: Store) -> None:
    interrupted(tmp_path, store)
    plan = bench.plan()
    changed = dataclasses.replace(plan.cells[1], what="0" * 64)
    with pytest.raises(UserError) as error:
        run(
            dataclasses.replace(plan, cells=(plan.cells[0], changed, plan.cells[2])),
            bench.rig(tmp_path),
            store,
            resume=LATEST,
        )
    assert error.value.code == Exit.PLAN and "cell beta does something else" in error.value.message


def test_a_resume_on_a_changed_rig_is_refused_and_names_the_field(tmp_path: Path, store: Store) -> None:
    interrupted(tmp_path, store)
    survey = copy.deepcopy(bench.survey())
    survey["host"]["kernel"] = "9.9.9"
    with pytest.raises(UserError) as error:
        run(bench.plan(), bench.rig(tmp_path, survey=survey), store, resume=LATEST)
    assert (
        error.value.code == Exit.CANNOT
        and "kernel: " in error.value.message
        and "9.9.9" in error.value.message
    )


def test_nothing_to_resume_is_said(tmp_path: Path, store: Store) -> None:
    with pytest.raises(UserError) as error:
        run(bench.plan(), bench.rig(tmp_path), store, resume=LATEST)
    assert error.value.code == Exit.USAGE
    done = run(bench.plan(rounds=1), bench.rig(tmp_path), store).campaign
    with pytest.raises(UserError, match="complete"):
        run(bench.plan(), bench.rig(tmp_path), store, resume=done[:8])


def test_a_resume_repeats_rounds_that_lost_a_trial(tmp_path: Path, store: Store) -> None:
    first = run(bench.plan(), bench.rig(tmp_path, "--behave", "dies@4"), store)
    assert first.counts == {"ok": 8, "lost": 1}
    second = run(bench.plan(), bench.rig(tmp_path), store, resume=first.campaign)
    assert second.counts == {"ok": 3} and second.status == "complete"
    assert turns(store, first.campaign) == EVERY_CELL_ONCE


def test_the_estimate_of_what_is_left_shrinks(tmp_path: Path, store: Store) -> None:
    notebook = bench.Notebook()
    run(bench.plan(), bench.rig(tmp_path, "--pace", "0.05"), store, notebook)
    assert notebook.left[-1] < notebook.left[4]
    assert [s.number for s in notebook.steps] == list(range(1, 10))
