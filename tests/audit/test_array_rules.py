"""Rules of arrays: their state, and members that differ.

What each one finds on a small stack, and beside it what it must not find.
"""

from __future__ import annotations

from typing import Any

import pytest

from fsdyno.audit import audit
from fsdyno.audit.rule import Rule, Severity
from fsdyno.audit.rules import array_state, members_differ, superblock_geometry
from tests.audit.small import GIB, THROUGH, array, found, layer, one, stack

# Members that differ


def test_members_with_and_without_a_cache_are_told_apart() -> None:
    layers = [layer("md0", "md", ["sda", "sdb", "sdc"]), layer("sda"), layer("sdb")]
    finding = one(members_differ.RULE, [*layers, layer("sdc", write_cache=THROUGH)])
    assert "write back at sda, sdb; write through at sdc" in finding.found


def test_of_sizes_of_sectors_it_is_said_that_the_largest_counts() -> None:
    """An array takes the largest of its members and refuses less: it reads nothing to change a part of it."""
    layers = [layer("md0", "md", ["sda", "sdb"]), layer("sda", logical_block_size=512)]
    finding = one(members_differ.RULE, [*layers, layer("sdb", logical_block_size=4096)])
    assert "logical_block_size" in finding.found and "refuses requests" in finding.why


def test_of_members_of_two_kinds_only_the_kind_is_said_and_not_what_follows_from_it() -> None:
    odd = layer("sdb", rotational=1, scheduler="mq-deadline", nr_requests=64)
    layers = [layer("md0", "md", ["sda", "sdb"]), layer("sda", nr_requests=1023), odd]
    assert "rotational" in one(members_differ.RULE, layers).found


def test_a_mirror_that_only_writes_to_its_slow_member_is_meant_so() -> None:
    slots = [{"device": "sda", "state": "in_sync"}, {"device": "sdb", "state": "in_sync,write_mostly"}]
    top = layer("md0", "md", ["sda", "sdb"], facts={"slots": slots})
    assert not found(members_differ.RULE, [top, layer("sda"), layer("sdb", rotational=1)])


def test_a_different_depth_is_found_on_equal_disks_and_not_between_drivers() -> None:
    def members(driver: str) -> list[dict[str, Any]]:
        disks = (layer("sda", nr_requests=64, facts={"driver": "scsi"}), layer("sdb", nr_requests=256))
        disks[1]["facts"] = {"driver": driver}
        return [layer("md0", "md", ["sda", "sdb"]), *disks]

    assert "nr_requests" in one(members_differ.RULE, members("scsi")).found
    assert not found(members_differ.RULE, members("nvme"))


# Arrays


def test_an_array_at_rest_is_no_finding() -> None:
    assert not found(array_state.RULE, array())


@pytest.mark.parametrize(
    ("survives", "says"),
    [
        (2, "misses 1 of 4 members; it survives the loss of 2 more"),
        (0, "misses 1 of 4 members; it survives no further loss"),
    ],
)
def test_a_degraded_array_says_what_it_still_survives_as_the_agent_knows_it(survives: int, says: str) -> None:
    finding = one(array_state.RULE, array("raid10", degraded=1, survives=survives))
    assert finding.severity is Severity.DANGER
    assert finding.found.endswith(says)


def test_nothing_is_said_of_what_an_array_survives_where_the_agent_does_not_know() -> None:
    """The layout of RAID 10 is not decoded here: of near2 in its offset form it said what was not so."""
    finding = one(array_state.RULE, array("raid10", degraded=1, kernel_layout=0x102))
    assert finding.found.endswith("misses 1 of 4 members")


def test_an_array_at_work_is_advice_and_tells_how_far_it_is() -> None:
    finding = one(array_state.RULE, array(sync_action="resync", done=0.25))
    assert finding.severity is Severity.ADVICE
    assert "resync, 25 % done" in finding.found


def test_a_rebuild_of_a_degraded_array_is_waited_for_and_no_disk_is_added() -> None:
    findings = found(array_state.RULE, array(degraded=1, sync_action="recover"))
    assert [finding.severity for finding in findings] == [Severity.DANGER, Severity.ADVICE]
    assert all(finding.command.startswith("mdadm --wait /dev/md0") for finding in findings)


def test_a_failed_member_that_was_replaced_is_still_named() -> None:
    slots = [{"device": "sda", "slot": 0, "state": "in_sync"}, {"device": "sdb", "state": "faulty,blocked"}]
    assert one(array_state.RULE, array(slots=slots)).command == "mdadm /dev/md0 --remove /dev/sdb"


def test_a_broken_array_is_a_danger_and_a_read_only_one_is_not_where_nothing_is_written() -> None:
    assert one(array_state.RULE, array("raid0", array_state="broken")).severity is Severity.DANGER
    assert one(array_state.RULE, array(array_state="readonly")).severity is Severity.ADVICE
    assert not found(array_state.RULE, array(array_state="readonly"), options=["ro", "relatime"])
    # What was assembled and not yet written to.
    assert not found(array_state.RULE, array(array_state="read-auto"), mounted=False)


def test_parity_that_does_not_agree_is_a_danger_and_a_mirror_may_be_of_swap() -> None:
    last = {"last_sync_action": "check"}
    assert one(array_state.RULE, array("raid5", mismatch_cnt=128, **last)).severity is Severity.DANGER
    assert one(array_state.RULE, array("raid1", mismatch_cnt=128, **last)).severity is Severity.ADVICE
    assert not found(array_state.RULE, array("raid5", mismatch_cnt=0, **last))
    # What a first resync made agree.
    assert not found(array_state.RULE, array("raid6", mismatch_cnt=128, last_sync_action="resync"))
    assert not found(array_state.RULE, array("raid6", mismatch_cnt=128))


def test_of_a_check_that_runs_the_count_is_its_own_and_no_other_one_is_asked_for() -> None:
    """The kernel refuses it: the device is busy."""
    last = {"mismatch_cnt": 128, "last_sync_action": "check"}
    runs, _ = sorted(
        found(array_state.RULE, array("raid5", sync_action="check", **last)), key=lambda one: -one.severity
    )
    assert runs.severity is Severity.DANGER and "the running check" in runs.found and "so far" in runs.found
    assert runs.command.startswith("mdadm --wait /dev/md0 ")
    rests = one(array_state.RULE, array("raid5", **last))
    assert "the last check" in rests.found and rests.command.startswith("echo check > ")


@pytest.mark.parametrize("rule", [array_state.RULE, superblock_geometry.RULE], ids=lambda rule: rule.name)
def test_arrays_of_lvm_that_were_not_seen_are_told_to_be_so(rule: Rule) -> None:
    """Their members, and what is missing of them, are in segments that only root may read."""
    judged = audit(stack([layer("dm-0", "lvm")], unseen=["segments"]))
    assert rule in [blind for blind, _ in judged.blind]


def test_a_bitmap_is_asked_for_where_mdadm_makes_one_by_itself() -> None:
    large = {"bitmap": "none", "consistency_policy": "resync", "member_size": 100 * GIB}
    assert "--bitmap=internal" in one(array_state.RULE, array(**large)).command
    assert not found(array_state.RULE, array(**{**large, "bitmap": "+8"}))
    assert not found(array_state.RULE, array(**{**large, "consistency_policy": "ppl"}))
    assert not found(array_state.RULE, array(**{**large, "member_size": 99 * GIB}))
    assert not found(array_state.RULE, array("raid0", **large))
