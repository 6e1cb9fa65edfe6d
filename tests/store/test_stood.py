"""Where a trial ran and what its mkfs made: from events, in every form that they come in."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsdyno.store import Store, where_hash
from fsdyno.store.stood import FORMAT, made_hash, stood, where_of
from tests.report.guests import began, file_system, machine, work
from tests.store.fixtures import CALIBRATION, phase_end, record, start

ROOT = Path(__file__).parents[2]
WHAT = "c" * 64


def made(*facts: dict[str, Any]) -> str | None:
    return made_hash(WHAT, stood([file_system(**one) for one in facts]).made)


def test_a_guest_has_a_kernel_cpus_memory_and_a_boot_of_its_own() -> None:
    hello = {"event": "hello", "from": "guest", "kernel": "6.1.0-56-amd64", "calibration": CALIBRATION}
    found = stood([*began(), hello]).where
    assert found == {
        "place": "guest",
        "kernel": "6.1.0-56-amd64",
        "accelerator": "tcg",
        "cpus": 2,
        "memory": 1 << 30,
        "qemu": "7.2.22",
        "boot": "b-1",
        "calibration": CALIBRATION,
    }


def test_the_rigs_own_hello_is_not_the_guests() -> None:
    assert "calibration" not in stood([{"event": "hello", "from": "rig", "calibration": CALIBRATION}]).where


def where(**facts: Any) -> str:
    return where_hash(where_of({"rig": "bench", "kernel": "6.18"}, stood(began(**facts)).where))


@pytest.mark.parametrize(
    "changed", [{"kernel": "6.6"}, {"accelerator": "kvm"}, {"cpus": 4}, {"memory": 1 << 31}, {"qemu": "9.0"}]
)
def test_another_guest_is_another_where(changed: dict[str, Any]) -> None:
    assert where(**changed) != where()


def test_another_boot_of_the_same_guest_is_the_same_where() -> None:
    assert where(boot="b-2", boot_seconds=99.0, fresh=False) == where()


def test_a_native_trial_is_where_its_campaign_is() -> None:
    rig = {"rig": "bench", "kernel": "6.18"}
    events = [{"event": "trial_start", "place": "native", "boot": "n-1"}]
    assert where_of(rig, stood(events).where) == rig


@given(st.permutations(["extent", "64bit", "flex_bg", "metadata_csum"]))
def test_features_are_a_set(features: list[str]) -> None:
    assert made({"features": features}) == made({"features": ["64bit", "extent", "flex_bg", "metadata_csum"]})


@pytest.mark.parametrize(
    "other",
    [
        {"features": ["extent"]},
        {"features": ["extent", "64bit", "casefold"]},
        {"block_size": 1024},
        {"version": 4},
        {"stride": 16, "stripe_width": 48},
        {"data": "single", "metadata": "single"},
        {"log_size": 64 << 20},
        {"log_stripe_unit": 32768},
        {"journal_size": 128 << 20},
        {"reserved_blocks": 1},
        {"overprovision_segments": 12},
    ],
)
def test_what_mkfs_chose_otherwise_is_another_file_system(other: dict[str, Any]) -> None:
    assert made(other) != made({})


def test_what_varies_by_itself_is_not_what_was_made() -> None:
    assert made({"uuid": "a", "free_blocks": 7, "label": "x"}) == made({"uuid": "b", "free_blocks": 8})


def test_each_fact_of_a_superblock_counts_or_is_known_to_vary() -> None:
    """A fact that the agent reads and nobody thought of would let a new default of mkfs pass unseen."""
    varies = {"uuid", "label", "clean"}
    source = "".join(path.read_text() for path in sorted((ROOT / "agent/filesystems/src").rglob("*.rs")))
    read = set(re.findall(r'\(\s*"(\w+)"\.to_string\(\),\s*json!', source))
    assert {"features", "block_size", "log_size", "journal_size", "overprovision_segments"} <= read
    assert read - set(FORMAT) - varies == set()


def test_every_mkfs_of_a_trial_counts() -> None:
    assert made({}, {"block_size": 1024}) != made({}) != made({"block_size": 1024}, {})


def test_the_configuration_is_part_of_it_and_nothing_made_is_nothing() -> None:
    found = stood([file_system()]).made
    assert made_hash("d" * 64, found) != made_hash(WHAT, found)
    assert made_hash(WHAT, []) is None


def part(name: str, **facts: Any) -> dict[str, Any]:
    return {"event": "built", "part": name, "facts": facts}


@pytest.mark.parametrize(
    ("volume", "system", "aligned"),
    [
        (True, True, True),
        (True, False, False),
        (False, True, False),
        (None, True, True),
        (None, None, None),
    ],
)
def test_a_stack_is_aligned_if_all_that_say_anything_say_so(
    volume: bool | None, system: bool | None, aligned: bool | None
) -> None:
    events = [part("lvm", aligned=volume, alignment="the volume"), part("file_system", aligned=system)]
    found = stood(events)
    assert found.aligned is aligned
    assert found.alignment == ["the volume"]


def test_what_a_part_said_last_holds() -> None:
    events = [
        part("file_system", aligned=True, alignment="before the array grew"),
        part("file_system", aligned=False, alignment="after it"),
    ]
    assert (stood(events).aligned, stood(events).alignment) == (False, ["after it"])


# What a RAID 5 of three members with a volume says that grows to five, as the agent says it.
MADE = {"sunit": 128, "swidth": 256, "block_size": 4096, "features": ["a"]}
BEFORE = [
    part("array", level=5, members=3, chunk=65536, stripe=128 << 10),
    part("lvm", stripe_below=128 << 10, off_stripe=0, aligned=True),
    {"event": "phase_start", "index": 0, "kind": "mkfs"},
    part("file_system", **MADE, aligned=True, alignment="the superblock has the array's geometry"),
    phase_end(0, "mkfs", "mkfs", 0.1, facts={**MADE, "aligned": True}),
    {"event": "phase_start", "index": 1, "kind": "grow"},
]
GROWN = {"members": 5, "stripe": 256 << 10}


def grown(*built: dict[str, Any], **facts: Any) -> Any:
    return stood([*BEFORE, *built, phase_end(1, "grow", "grow", 9.0, facts={**GROWN, **facts})])


def test_a_volume_that_is_off_the_wider_stripe_is_not_aligned() -> None:
    volume = {"stripe_below": 256 << 10, "off_stripe": 128 << 10, "aligned": False}
    found = grown(lvm=volume)
    assert found.aligned is False
    assert "after `grow` the volume begins 128 KiB into a stripe (aligned before)" in found.alignment
    assert len(found.made) == 1


def test_a_superblock_with_the_old_stripe_is_not_aligned() -> None:
    found = grown(superblock={"sunit": 128, "swidth": 256})
    assert found.aligned is False
    [said] = found.alignment
    assert said == (
        "after `grow` the superblock has sunit 128, swidth 256 as before, "
        "where the array's stripe is 256 KiB now (aligned before)"
    )


def test_a_mirror_that_grew_has_no_other_stripe() -> None:
    found = grown(stripe=None, superblock={"sunit": 128, "swidth": 256})
    assert found.aligned is True and found.alignment == ["the superblock has the array's geometry"]


def test_a_mount_that_was_told_the_new_stripe_is_aligned_whatever_the_superblock_keeps() -> None:
    found = grown(superblock={"sunit": 128, "swidth": 256}, told="stripe=64")
    assert found.aligned is True
    assert found.alignment == [
        "after `grow` the mount was told stripe=64; the superblock has sunit 128, swidth 256"
    ]


def test_a_superblock_that_took_other_numbers_is_left_to_what_else_is_known() -> None:
    found = grown(superblock={"sunit": 128, "swidth": 512}, lvm={"aligned": True, "off_stripe": 0})
    assert found.aligned is True
    assert "after `grow` the superblock has sunit 128, swidth 512" in found.alignment


@pytest.mark.parametrize("aligned", [True, False])
def test_parts_that_speak_after_growing_are_believed_and_made_nothing(aligned: bool) -> None:
    again = part("file_system", **MADE | {"swidth": 512}, aligned=aligned, alignment="what it says now")
    volume = part("lvm", aligned=aligned, off_stripe=0 if aligned else 128 << 10)
    facts = {**GROWN, "superblock": {"sunit": 128, "swidth": 256}}
    end = phase_end(1, "grow", "grow", 9.0, facts=facts)
    for events in ([*BEFORE, volume, again, end], [*BEFORE, end, volume, again]):
        found = stood(events)
        assert found.aligned is aligned
        turned = "" if aligned else " (aligned before)"
        where = "with a stripe" if aligned else "128 KiB into a stripe"
        assert found.alignment == [
            f"after `grow` the volume begins {where}{turned}",
            f"after `grow` what it says now{turned}",
        ]
        assert found.made == stood(BEFORE).made


@pytest.mark.parametrize(
    ("mounts", "told"),
    [([], None), (["on"], "on"), (["on", "off"], "off"), (["off", "on"], "off"), (["none", "none"], "none")],
)
def test_one_mount_without_barriers_is_a_trial_without(mounts: list[str], told: str | None) -> None:
    assert stood([part("mount", driver="any", barriers=one) for one in mounts]).barriers == told
    assert stood([part("mount", driver="older agents say nothing")]).barriers is None


@pytest.mark.parametrize(("mount", "told"), [("on", "off"), ("none", "none")])
def test_a_phase_that_turns_the_queue_off_turns_barriers_off(mount: str, told: str) -> None:
    turned = phase_end(0, "set", "set", 0.1, facts={"write_cache": "write through"})
    assert stood([part("mount", barriers=mount), turned]).barriers == told


def test_the_store_keeps_it_with_each_trial(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite", create=True) as store:
        campaign = start(store, ["a"], where={"rig": "bench", "kernel": "6.18", "cpus": 8})
        events = [*began(), file_system(aligned=True, alignment="as the array"), work(busy=0.25)]
        trial = store.trial(record(store, campaign, 0, 1, events))
        assert trial.emulated and trial.where["kernel"] == "6.1.0-56-amd64"
        assert trial.where_hash != store.campaign().where_hash
        assert trial.made == made_hash(store.campaign().cells[0].what, stood(events).made)
        assert trial.stood["aligned"] is True and trial.stood["alignment"] == ["as the array"]
        native = [{"event": "trial_start", "place": "native"}, phase_end(0, "mkfs", "mkfs", 1.0)]
        trial = store.trial(record(store, campaign, 0, 2, native))
        assert not trial.emulated and trial.where["kernel"] == "6.18" and trial.made is None
        assert trial.where_hash == store.campaign().where_hash


def test_busy_shares_are_of_the_machine_that_ran_the_trial(tmp_path: Path) -> None:
    """`work` is done by two threads: a guest of one CPU has half as much to be busy with."""
    with Store.open(tmp_path / "s.sqlite", create=True) as store:
        campaign = start(store, ["a"], where={"kernel": "6.18", "cpus": 64})
        shares = {}
        for cpus in (1, 2, 64):
            events = [*began(cpus=cpus), work(busy=0.25)]
            trial = record(store, campaign, 0, cpus, events)
            shares[cpus] = {m: v for _, _, m, v in store.trial_samples(trial)}["busy_share"]
        assert shares == pytest.approx({1: 0.5, 2: 0.25, 64: 0.25})


def test_deriving_again_changes_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite", create=True) as store:
        campaign = start(store, ["a"])
        for rnd in range(3):
            rng = random.Random(rnd)
            events = [*began(boot=f"b-{rnd}"), file_system(aligned=rnd % 2 == 0), work(rng.random())]
            record(store, campaign, 0, rnd, events)
        before = store.trials(campaign), [store.trial_samples(t.id) for t in store.trials(campaign)]
        assert store.rebuild()["trials"] == 3
        assert (store.trials(campaign), [store.trial_samples(t.id) for t in store.trials(campaign)]) == before


def test_a_trial_that_was_lost_before_anything_stood_is_recorded(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite", create=True) as store:
        campaign = start(store, ["a"])
        for events in ([], began()[:1], [machine()]):
            found = store.trial(record(store, campaign, 0, 1, events, outcome="lost"))
            assert found.made is None and found.stood["aligned"] is None
