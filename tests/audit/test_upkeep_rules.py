"""Rules of upkeep: errors, journals, checks, free space, and timers.

What each one finds on a small stack, and beside it what it must not find.
"""

from __future__ import annotations

from typing import Any

import pytest

from fsdyno.audit.rule import Severity
from fsdyno.audit.rules import errors_noted, fullness, journal_size, overdue_check, timers
from tests.audit.small import DAY, GIB, MIB, SSD, TAKEN, YEAR, array, found, layer, one

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


def test_a_hundred_gib_are_room_whatever_share_they_are_unless_they_are_in_small_pieces() -> None:
    large = {"size": 100_000 * GIB, "free": 100 * GIB, "available": 100 * GIB}
    assert not found(fullness.RULE, [layer("sda")], **space(**large))
    assert (
        "free for users" in one(fullness.RULE, [layer("sda")], **space(**{**large, "available": GIB})).found
    )
    in_small = pieces(GIB, of=100 * GIB)
    assert "fragmented" in one(fullness.RULE, [layer("sda")], **space(**large, **in_small)).found


def test_the_largest_piece_of_what_is_left_is_told_where_all_were_seen() -> None:
    left = {"available": 4 * GIB, **pieces(4 * GIB, of=4 * GIB)}
    assert "the largest piece 1 MiB" in one(fullness.RULE, [layer("sda")], **space(**left)).found
    left |= pieces(4 * GIB, of=4 * GIB, whole=False)
    assert "largest" not in one(fullness.RULE, [layer("sda")], **space(**left)).found


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


def test_checks_of_snapshots_concern_types_on_volumes_that_note_their_last_check() -> None:
    """Whatever the command of the check is called: the program's name says nothing for certain."""
    volume, notes = [layer("dm-0", "lvm", ["sda"]), layer("sda")], {"upkeep": {"checked": TAKEN}}
    scrub = [("e2scrub_all.timer", "/etc/x")]
    assert found(timers.RULE, volume, timers=scrub, **notes)
    assert not found(timers.RULE, [layer("sda")], timers=scrub, **notes)
    assert not found(timers.RULE, volume, timers=scrub, commands={"check": "e2fsck -f /dev/x"})


def test_units_of_any_name_are_one_word_each_to_a_shell() -> None:
    finding = one(timers.RULE, [SSD], timers=[(r"fstrim@a\x2db.timer", "/etc/x")])
    assert finding.command == r"systemctl stop 'fstrim@a\x2db.timer'"


def test_other_timers_of_a_distribution_are_not_mentioned() -> None:
    ours = [("man-db.timer", "/etc/x"), ("apt-daily.timer", "/etc/x"), ("mdmonitor-oneshot.timer", "/etc/x")]
    assert not found(timers.RULE, [*array(), SSD], timers=ours)
