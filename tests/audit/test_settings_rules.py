"""Rules of caches, arrays, settings, space and upkeep, on small stacks made by hand: what each one finds, and
beside it what it must not find."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from fsdyno.audit.rule import Finding, Rule, Severity
from fsdyno.audit.rules import (
    array_state,
    barriers_off,
    cache_without_flushes,
    discard,
    errors_noted,
    fullness,
    journal_size,
    mount_options,
    overdue_check,
    read_ahead,
    scheduler,
    timers,
    write_cache_mixed,
)
from fsdyno.audit.stack import Stack, read

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
DAY, YEAR = 86_400, 365 * 86_400
TAKEN = 1_800_000_000
BACK, THROUGH = "write back", "write through"
OPTIONS = ["rw", "relatime"]


def layer(name: str, kind: str = "disk", on: Iterable[str] = (), **more: Any) -> dict[str, Any]:
    """A layer; facts by `facts`, anything else is an attribute of its queue."""
    facts, chunk = more.pop("facts", {}), more.pop("chunk", None)
    queue = {"write_cache": BACK, "rotational": 0, "scheduler": "none", "discard_max_bytes": 0, **more}
    piece = {"start": 0, "size": GIB, "offset": MIB} | ({"chunk": chunk} if chunk else {})
    return {
        "name": name,
        "node": f"/dev/{name}",
        "kind": kind,
        "size": GIB,
        "queue": queue,
        "facts": facts,
        "below": [{**piece, "on": lower} for lower in on],
    }


def array(level: str = "raid6", members: int = 4, **facts: Any) -> list[dict[str, Any]]:
    """An array at rest on disks `sda`, `sdb`, …"""
    disks = [f"sd{chr(ord('a') + n)}" for n in range(members)]
    told = {"level": level, "members": members, "degraded": 0, "sync_action": "idle", **facts}
    return [layer("md0", "md", disks, facts=told), *(layer(disk) for disk in disks)]


def stack(
    layers: list[dict[str, Any]],
    *,
    options: Iterable[str] = OPTIONS,
    mounted: bool = True,
    read_ahead: int = 128 * KIB,
    stripe: int = 0,
    timers: Iterable[tuple[str, str]] = (),
    unseen: Iterable[str] = (),
    **filesystem: Any,
) -> Stack:
    """A mounted stack; `filesystem` as the record has it."""
    mount = {"point": "/mnt/a b", "source": "x", "fstype": "somefs", "options": list(options), "bdi": "8:0"}
    striped = {"on": "md0", "chunk": stripe, "data_disks": 1, "stripe": stripe, "pieces": [], "steps": []}
    return read(
        {
            "target": "/mnt/a b" if mounted else layers[0]["node"],
            "taken": TAKEN,
            "host": {},
            "mount": {**mount, "read_ahead": read_ahead} if mounted else None,
            "filesystem": {"type": "somefs", "known": True, "on": [], "upkeep": {}, **filesystem},
            "layers": layers,
            "striped": [striped] if stripe else [],
            "timers": [{"name": name, "from": file} for name, file in timers],
            "unseen": [{"what": what, "reason": {"message": "no"}} for what in unseen],
        }
    )


def found(rule: Rule, *of: Any, **told: Any) -> list[Finding]:
    return list(rule.judge(stack(*of, **told)))


def one(rule: Rule, *of: Any, **told: Any) -> Finding:
    findings = found(rule, *of, **told)
    assert len(findings) == 1, findings
    return findings[0]


# Barriers


def test_no_barriers_above_a_volatile_cache_are_a_danger_with_the_command_that_mends_it() -> None:
    off = {"barriers": {"on": False, "off_by": "nobarrier"}, "commands": {"barriers_on": "mount -o …"}}
    finding = one(barriers_off.RULE, [layer("sda")], **off)
    assert finding.severity is Severity.DANGER
    assert "nobarrier" in finding.found and "/dev/sda" in finding.found
    assert finding.command == "mount -o …"


def test_a_type_that_never_flushes_is_told_to_turn_the_disk_cache_off() -> None:
    finding = one(barriers_off.RULE, [layer("sda")], barriers={"on": False, "off_by": "it never does"})
    assert finding.command.startswith("# ") and "/dev/sda" in finding.command


@pytest.mark.parametrize(
    ("barriers", "cache", "options"),
    [
        ({"on": True}, BACK, OPTIONS),
        (None, BACK, OPTIONS),
        ({"on": False}, THROUGH, OPTIONS),
        ({"on": False}, BACK, ["ro", "relatime"]),
    ],
    ids=["on", "unknown", "no volatile cache", "nothing is written"],
)
def test_barriers_that_are_on_or_change_nothing_are_no_finding(
    barriers: Any, cache: str, options: list[str]
) -> None:
    assert not found(barriers_off.RULE, [layer("sda", write_cache=cache)], barriers=barriers, options=options)


def test_one_volatile_leaf_among_safe_ones_is_enough() -> None:
    layers = [layer("md0", "md", ["sda", "sdb"]), layer("sda", write_cache=THROUGH), layer("sdb")]
    finding = one(barriers_off.RULE, layers, barriers={"on": False})
    assert "/dev/sdb" in finding.found and "/dev/sda" not in finding.found


# Flushes


def test_a_layer_that_drops_flushes_is_found_by_name_wherever_it_is() -> None:
    layers = [
        layer("dm-0", "lvm", ["md0"]),
        layer("md0", "md", ["sda1"], write_cache=THROUGH),
        layer("sda1", "partition", ["sda"]),
        layer("sda"),
    ]
    finding = one(cache_without_flushes.RULE, layers)
    assert (finding.severity, finding.about) == (Severity.DANGER, "md0")
    assert finding.command == "echo 'write back' > /sys/block/md0/queue/write_cache"


@pytest.mark.parametrize(
    "layers",
    [
        [layer("dm-0", "lvm", ["sda"]), layer("sda")],
        [layer("dm-0", "lvm", ["sda"], write_cache=THROUGH), layer("sda", write_cache=THROUGH)],
        # An array announces a cache whatever its members have.
        [layer("md0", "md", ["sda"]), layer("sda", write_cache=THROUGH)],
        [layer("sda1", "partition", ["sda"], write_cache=THROUGH), layer("sda", write_cache=THROUGH)],
        [layer("loop0", "loop")],
    ],
    ids=["both have one", "neither has one", "array", "partition", "loop"],
)
def test_queues_as_the_kernel_sets_them_are_no_finding(layers: list[dict[str, Any]]) -> None:
    assert not found(cache_without_flushes.RULE, layers)


def test_a_loop_device_without_flushes_is_a_danger_since_its_file_is_cached() -> None:
    assert one(cache_without_flushes.RULE, [layer("loop0", "loop", write_cache=THROUGH)]).about == "loop0"


# Members that differ


def test_members_with_and_without_a_cache_are_told_apart() -> None:
    layers = [layer("md0", "md", ["sda", "sdb", "sdc"]), layer("sda"), layer("sdb")]
    finding = one(write_cache_mixed.RULE, [*layers, layer("sdc", write_cache=THROUGH)])
    assert "write back at sda, sdb; write through at sdc" in finding.found


def test_of_members_of_two_kinds_only_the_kind_is_said_and_not_what_follows_from_it() -> None:
    odd = layer("sdb", rotational=1, scheduler="mq-deadline", nr_requests=64)
    layers = [layer("md0", "md", ["sda", "sdb"]), layer("sda", nr_requests=1023), odd]
    assert "rotational" in one(write_cache_mixed.RULE, layers).found


def test_a_mirror_that_only_writes_to_its_slow_member_is_meant_so() -> None:
    slots = [{"device": "sda", "state": "in_sync"}, {"device": "sdb", "state": "in_sync,write_mostly"}]
    top = layer("md0", "md", ["sda", "sdb"], facts={"slots": slots})
    assert not found(write_cache_mixed.RULE, [top, layer("sda"), layer("sdb", rotational=1)])


def test_a_different_depth_is_found_on_equal_disks_and_not_between_drivers() -> None:
    def members(driver: str) -> list[dict[str, Any]]:
        disks = (layer("sda", nr_requests=64, facts={"driver": "scsi"}), layer("sdb", nr_requests=256))
        disks[1]["facts"] = {"driver": driver}
        return [layer("md0", "md", ["sda", "sdb"]), *disks]

    assert "nr_requests" in one(write_cache_mixed.RULE, members("scsi")).found
    assert not found(write_cache_mixed.RULE, members("nvme"))


# Arrays


def test_an_array_at_rest_is_no_finding() -> None:
    assert not found(array_state.RULE, array())


@pytest.mark.parametrize(
    ("level", "missing", "layout", "says"),
    [
        ("raid6", 1, None, "survives the loss of 1 more"),
        ("raid6", 2, None, "survives no further loss"),
        ("raid5", 1, None, "survives no further loss"),
        ("raid1", 1, None, "survives the loss of 2 more"),
        # near2: its partner may be the next one to go; near3 has a third copy.
        ("raid10", 1, 0x102, "survives no further loss"),
        ("raid10", 1, 0x103, "survives the loss of 1 more"),
    ],
)
def test_a_degraded_array_says_what_it_still_survives(
    level: str, missing: int, layout: int | None, says: str
) -> None:
    finding = one(array_state.RULE, array(level, degraded=missing, kernel_layout=layout))
    assert finding.severity is Severity.DANGER
    assert f"misses {missing} of 4 members; it {says}" in finding.found


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


def test_a_bitmap_is_asked_for_where_mdadm_makes_one_by_itself() -> None:
    large = {"bitmap": "none", "consistency_policy": "resync", "member_size": 100 * GIB}
    assert "--bitmap=internal" in one(array_state.RULE, array(**large)).command
    assert not found(array_state.RULE, array(**{**large, "bitmap": "+8"}))
    assert not found(array_state.RULE, array(**{**large, "consistency_policy": "ppl"}))
    assert not found(array_state.RULE, array(**{**large, "member_size": 99 * GIB}))
    assert not found(array_state.RULE, array("raid0", **large))


# Upkeep


def test_errors_in_the_superblock_are_a_danger() -> None:
    told = {"commands": {"check": "e2fsck -f /dev/sda"}}
    finding = one(errors_noted.RULE, [layer("sda")], upkeep={"errors": 3}, **told)
    assert (finding.severity, finding.command) == (Severity.DANGER, "e2fsck -f /dev/sda")
    assert not found(errors_noted.RULE, [layer("sda")], upkeep={"errors": 0})


def test_a_journal_smaller_than_usual_is_found_and_one_as_usual_is_not() -> None:
    small = {"journal": 10 * MIB, "journal_usual": 64 * MIB}
    assert "10 MiB" in one(journal_size.RULE, [layer("sda")], upkeep=small).found
    assert not found(journal_size.RULE, [layer("sda")], upkeep={**small, "journal": 64 * MIB})
    assert not found(journal_size.RULE, [layer("sda")], upkeep={"journal": 10 * MIB})


@pytest.mark.parametrize(
    ("upkeep", "says"),
    [
        ({"mounts": 20, "most_mounts": 20, "checked": TAKEN - DAY}, "mounted 20 times"),
        ({"checked": TAKEN - 200 * DAY, "check_interval": 180 * DAY}, "200 days ago"),
        ({"mounts": 3, "checked": TAKEN - 3 * YEAR}, "3 years ago, and no limit is set"),
        ({"checked": TAKEN + 2 * DAY, "check_interval": DAY}, "in the future"),
    ],
)
def test_an_overdue_check_says_by_which_limit(upkeep: dict[str, int], says: str) -> None:
    finding = one(overdue_check.RULE, [layer("sda")], upkeep=upkeep)
    assert finding.severity is Severity.ADVICE and says in finding.found


@pytest.mark.parametrize(
    "upkeep",
    [
        {},
        {"mounts": 19, "most_mounts": 20, "checked": TAKEN - 10 * YEAR},
        {"checked": TAKEN - 179 * DAY, "check_interval": 180 * DAY},
        {"mounts": 500, "checked": TAKEN - YEAR},
        # A clock in another time zone.
        {"checked": TAKEN + DAY // 2},
        {"mounts": 5, "checked": 0},
    ],
)
def test_a_check_that_is_not_overdue_or_not_known_is_no_finding(upkeep: dict[str, int]) -> None:
    assert not found(overdue_check.RULE, [layer("sda")], upkeep=upkeep)


# Read-ahead


@pytest.mark.parametrize(
    ("size", "stripe", "wanted"),
    [
        (8 * KIB, 0, 128),
        (127 * KIB, 0, 128),
        (128 * KIB, 192 * KIB, 384),
        (4 * MIB - 4096, 10 * MIB, 20480),
        (65 * MIB, 0, 128),
    ],
)
def test_read_ahead_far_from_the_kernels_default_is_set_where_the_file_system_has_it(
    size: int, stripe: int, wanted: int
) -> None:
    finding = one(read_ahead.RULE, [layer("md0", "md")], read_ahead=size, stripe=stripe)
    assert finding.command == f"echo {wanted} > /sys/class/bdi/8:0/read_ahead_kb"


@pytest.mark.parametrize(
    ("size", "stripe"),
    [
        (128 * KIB, 0),
        (384 * KIB, 192 * KIB),
        (192 * KIB, 192 * KIB),
        # What a file system with a read-ahead of its own gets, however wide the array is.
        (4 * MIB, 10 * MIB),
        (64 * MIB, 0),
        # Twice the stripe of 24 members with chunks of 4 MiB.
        (192 * MIB, 96 * MIB),
    ],
)
def test_what_the_kernel_chooses_is_no_finding(size: int, stripe: int) -> None:
    assert not found(read_ahead.RULE, [layer("md0", "md")], read_ahead=size, stripe=stripe)


def test_without_a_mount_nothing_is_read_ahead() -> None:
    assert not found(read_ahead.RULE, [layer("sda")], mounted=False)


# Options of the mount


@pytest.mark.parametrize("option", ["sync", "dirsync", "wsync", "data=writeback", "norecovery"])
def test_an_option_that_costs_or_gives_up_something_is_named(option: str) -> None:
    finding = one(mount_options.RULE, [layer("sda")], options=[*OPTIONS, option])
    assert finding.severity is Severity.ADVICE
    assert option in finding.found and "'/mnt/a b'" in finding.command


def test_what_a_synchronous_mount_implies_is_not_said_twice() -> None:
    assert "with sync" in one(mount_options.RULE, [layer("sda")], options=[*OPTIONS, "sync", "wsync"]).found


def test_a_journal_that_is_not_written_is_a_danger() -> None:
    finding = one(mount_options.RULE, [layer("sda")], options=[*OPTIONS, "nointegrity"])
    assert finding.severity is Severity.DANGER


@pytest.mark.parametrize("option", ["relatime", "noatime", "lazytime"])
def test_times_of_access_are_advised_only_where_every_read_writes_them(option: str) -> None:
    assert "strictatime" in one(mount_options.RULE, [layer("sda")], options=["rw"]).found
    assert not found(mount_options.RULE, [layer("sda")], options=["rw", option])
    assert not found(mount_options.RULE, [layer("sda")], options=["ro"])


def test_a_read_only_mount_of_what_is_written_elsewhere_is_judged_as_written() -> None:
    assert one(mount_options.RULE, [layer("sda")], options=["ro", "relatime", "rw", "sync"])


# Scheduler


@pytest.mark.parametrize(
    ("rotational", "chosen", "better"),
    [(1, "none", "mq-deadline"), (1, "kyber", "mq-deadline"), (0, "bfq", "none")],
)
def test_a_scheduler_for_another_medium_is_set_at_the_disk(rotational: int, chosen: str, better: str) -> None:
    layers = [layer("md0", "md", ["sda"]), layer("sda", rotational=rotational, scheduler=chosen)]
    finding = one(scheduler.RULE, layers)
    assert finding.command == f"echo {better} > /sys/block/sda/queue/scheduler"


@pytest.mark.parametrize(
    ("rotational", "chosen"),
    [(1, "mq-deadline"), (1, "bfq"), (0, "none"), (0, "mq-deadline"), (0, "kyber")],
)
def test_a_scheduler_that_suits_its_disk_is_no_finding(rotational: int, chosen: str) -> None:
    assert not found(scheduler.RULE, [layer("sda", rotational=rotational, scheduler=chosen)])


@pytest.mark.parametrize(
    ("name", "kind", "facts"),
    [
        ("vda", "disk", {"driver": "virtio"}),
        ("sda", "disk", {"driver": "scsi", "model": "QEMU HARDDISK"}),
        ("loop0", "loop", {}),
        ("zram0", "disk", {}),
    ],
)
def test_whoever_has_no_medium_of_its_own_is_not_judged_by_one(
    name: str, kind: str, facts: dict[str, str]
) -> None:
    disk = layer(name, kind, rotational=1, scheduler="none", discard_max_bytes=GIB, facts=facts)
    assert not found(scheduler.RULE, [disk])
    assert not found(discard.RULE, [disk | {"queue": {**disk["queue"], "rotational": 0}}])


# Discards

SSD = layer("sda", discard_max_bytes=2 * GIB)
TRIM = ("fstrim.timer", "/etc/systemd/system/timers.target.wants/fstrim.timer")


def test_online_discards_are_advised_against_and_weekly_ones_for() -> None:
    finding = one(discard.RULE, [SSD], options=[*OPTIONS, "discard"])
    assert finding.command == "systemctl enable --now fstrim.timer && mount -o remount,nodiscard '/mnt/a b'"
    finding = one(discard.RULE, [SSD], options=[*OPTIONS, "discard"], timers=[TRIM])
    assert finding.command == "mount -o remount,nodiscard '/mnt/a b'"


@pytest.mark.parametrize(
    "options",
    [[*OPTIONS, "discard=async"], [*OPTIONS, "discard", "discard_unit=block"]],
    ids=["queued", "units"],
)
def test_discards_that_are_gathered_are_no_finding(options: list[str]) -> None:
    assert not found(discard.RULE, [SSD], options=options)


def test_a_disk_that_is_never_told_what_is_free_is_found_unless_a_timer_does_or_may() -> None:
    assert "/dev/sda" in one(discard.RULE, [SSD]).found
    assert not found(discard.RULE, [SSD], timers=[TRIM])
    assert not found(discard.RULE, [SSD], unseen=["timers"])
    assert not found(discard.RULE, [layer("sda", rotational=1, discard_max_bytes=GIB)])
    assert not found(discard.RULE, [layer("sda")])


def test_the_layer_that_stops_discards_is_named_and_a_safe_default_is_only_noted() -> None:
    volume = layer("dm-0", "lvm", ["dm-1"])
    crypt = {**layer("dm-1", "crypt", ["sda1"]), "node": "/dev/mapper/secret"}
    layers = [volume, crypt, layer("sda1", "partition", ["sda"], discard_max_bytes=GIB), SSD]
    finding = one(discard.RULE, layers, timers=[TRIM])
    assert (finding.severity, finding.about) == (Severity.NOTE, "dm-1")
    assert finding.command == "cryptsetup refresh --allow-discards secret"
    parity = [layer("md0", "md", ["sda"], facts={"level": "raid5"}), SSD]
    assert one(discard.RULE, parity).severity is Severity.NOTE
    mirror = [layer("md0", "md", ["sda"], facts={"level": "raid1"}), SSD]
    assert one(discard.RULE, mirror).severity is Severity.ADVICE


# Space


def space(**changed: Any) -> dict[str, Any]:
    half = {"free": 50 * GIB, "available": 50 * GIB, "inodes": 1000, "inodes_free": 900}
    return {"space": {"size": 100 * GIB, **half, **changed}}


def pieces(in_large: int, *, whole: bool = True, of: int = GIB) -> dict[str, Any]:
    return {"pieces": {"count": 9, "bytes": of, "largest": MIB, "in_large": in_large, "whole": whole}}


def test_a_nearly_full_file_system_is_found_by_what_users_may_use() -> None:
    finding = one(fullness.RULE, [layer("sda")], **space(available=4 * GIB))
    assert "4.0 % free for users: 4 GiB" in finding.found
    assert not found(fullness.RULE, [layer("sda")], **space(available=5 * GIB))
    assert not found(fullness.RULE, [layer("sda")], options=["ro"], **space(available=0))


def test_inodes_count_only_where_there_is_a_number_of_them() -> None:
    assert "inodes" in one(fullness.RULE, [layer("sda")], **space(inodes_free=49)).found
    assert not found(fullness.RULE, [layer("sda")], **space(inodes=0, inodes_free=0))


def test_free_space_in_small_pieces_is_found_if_all_of_it_was_seen_and_there_is_some() -> None:
    finding = one(fullness.RULE, [layer("sda")], **space(**pieces(GIB // 4)))
    assert "75.0 % in pieces below 1 MiB" in finding.found
    assert not found(fullness.RULE, [layer("sda")], **space(**pieces(GIB // 2)))
    assert not found(fullness.RULE, [layer("sda")], **space(**pieces(0, whole=False)))
    assert not found(fullness.RULE, [layer("sda")], **space(**pieces(0, of=63 * MIB)))


# Timers

CHECK = ("mdadm", "/etc/cron.d/mdadm")


def test_a_check_of_arrays_is_noted_where_there_is_an_array() -> None:
    finding = one(timers.RULE, array(), timers=[CHECK])
    assert finding.severity is Severity.NOTE
    assert "/etc/cron.d/mdadm" in finding.found and finding.command.startswith("# ")
    assert not found(timers.RULE, [layer("sda")], timers=[CHECK])
    assert not found(timers.RULE, array("raid0"), timers=[CHECK])
    # Its namesake only looks for missing members, which reads next to nothing.
    assert not found(timers.RULE, array(), timers=[("mdadm", "/etc/cron.daily/mdadm")])


def test_units_of_one_kind_of_work_are_stopped_by_one_command() -> None:
    units = [("mdcheck_continue.timer", "/etc/a"), ("mdcheck_start.timer", "/etc/b")]
    finding = one(timers.RULE, array(), timers=units)
    assert finding.command == "systemctl stop mdcheck_continue.timer mdcheck_start.timer"


@pytest.mark.parametrize(
    ("timer", "concerned", "not_concerned"),
    [
        ("fstrim.timer", SSD, layer("sda")),
        ("smartd.service", layer("sda"), layer("loop0", "loop")),
    ],
)
def test_a_timer_is_noted_only_where_it_would_do_something(
    timer: str, concerned: dict[str, Any], not_concerned: dict[str, Any]
) -> None:
    assert one(timers.RULE, [concerned], timers=[(timer, "/etc/x")]).about == timer
    assert not found(timers.RULE, [not_concerned], timers=[(timer, "/etc/x")])


def test_a_scrub_concerns_the_file_systems_that_it_is_named_after() -> None:
    assert found(timers.RULE, [layer("sda")], timers=[("somefs-scrub@data.timer", "/etc/x")])
    assert not found(timers.RULE, [layer("sda")], timers=[("otherfs_scrub_all.timer", "/etc/x")])
    volume, check = [layer("dm-0", "lvm", ["sda"]), layer("sda")], {"commands": {"check": "e2fsck -f /dev/x"}}
    scrub = [("e2scrub_all.timer", "/etc/x")]
    assert found(timers.RULE, volume, timers=scrub, **check)
    assert not found(timers.RULE, [layer("sda")], timers=scrub, **check)
    assert not found(timers.RULE, volume, timers=scrub)


def test_other_timers_of_a_distribution_are_not_mentioned() -> None:
    ours = [("man-db.timer", "/etc/x"), ("apt-daily.timer", "/etc/x"), ("mdmonitor-oneshot.timer", "/etc/x")]
    assert not found(timers.RULE, [*array(), SSD], timers=ours)
