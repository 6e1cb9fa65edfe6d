"""Rules of how a stack is mounted and served: read-ahead, options, scheduler, discards.

What each one finds on a small stack, and beside it what it must not find.
"""

from __future__ import annotations

import pytest

from fsdyno.audit.rule import Severity
from fsdyno.audit.rules import discard, mount_options, read_ahead, scheduler
from tests.audit.small import GIB, KIB, MIB, OPTIONS, SSD, TRIM, found, layer, one

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


def test_of_stripes_whose_read_ahead_was_not_recorded_nothing_is_said() -> None:
    """How much keeps all members busy is computed by the agent only; older ones did not tell it."""
    assert not found(read_ahead.RULE, [layer("md0", "md")], read_ahead=8 * KIB, stripe=192 * KIB, old=True)


def test_without_a_mount_nothing_is_read_ahead() -> None:
    assert not found(read_ahead.RULE, [layer("sda")], mounted=False)


# Options of the mount


@pytest.mark.parametrize("access", ["rw", "ro"])
def test_a_mount_that_does_without_a_device_is_a_danger(access: str) -> None:
    finding = one(mount_options.RULE, [layer("sda")], options=[access, "relatime", "degraded"])
    assert finding.severity is Severity.DANGER and finding.command.startswith("# put the missing device back")


@pytest.mark.parametrize("option", ["sync", "dirsync", "wsync", "data=writeback", "norecovery"])
def test_an_option_that_costs_or_gives_up_something_is_named(option: str) -> None:
    finding = one(mount_options.RULE, [layer("sda")], options=[*OPTIONS, option])
    assert finding.severity is Severity.ADVICE
    assert option in finding.found and "'/mnt/a b'" in finding.command


@pytest.mark.parametrize("option", ["data=writeback", "norecovery"])
def test_the_root_is_not_told_to_be_unmounted(option: str) -> None:
    finding = one(mount_options.RULE, [layer("sda")], point="/", options=[*OPTIONS, option])
    assert "umount" not in finding.command
    assert "fstab" in finding.command and "rootflags=" in finding.command and "boot" in finding.command


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


ONLINE = [*OPTIONS, "discard"]


def test_online_discards_are_advised_against_and_weekly_ones_for() -> None:
    off = {"commands": {"discard_off": "mount -o remount,nodiscard /mnt/a"}}
    finding = one(discard.RULE, [SSD], options=ONLINE, **off)
    assert finding.command == "systemctl enable --now fstrim.timer && mount -o remount,nodiscard /mnt/a"
    # Freed blocks are discarded after the commit: no deletion waits for it.
    assert "deletion" not in finding.why
    finding = one(discard.RULE, [SSD], options=ONLINE, timers=[TRIM], **off)
    assert finding.command == "mount -o remount,nodiscard /mnt/a"


def test_how_online_discards_are_turned_off_is_said_by_the_type_or_in_words() -> None:
    """Not every type hears of it in a remount."""
    finding = one(discard.RULE, [SSD], options=ONLINE, timers=[TRIM])
    assert finding.command.startswith("# take discard out of fstab") and "remount" not in finding.command
    finding = one(discard.RULE, [SSD], options=ONLINE)
    assert finding.command.startswith("systemctl enable --now fstrim.timer # take discard out of fstab")


def test_where_timers_were_not_seen_none_is_enabled() -> None:
    """Whether one trims already is not known, nor whether there is anything to enable it with."""
    finding = one(discard.RULE, [SSD], options=ONLINE, unseen=["timers"])
    assert "systemctl" not in finding.command


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
    crypt = layer("dm-1", "crypt", ["sda1"], facts={"name": "a secret"})
    layers = [volume, crypt, layer("sda1", "partition", ["sda"], discard_max_bytes=GIB), SSD]
    finding = one(discard.RULE, layers, timers=[TRIM])
    assert (finding.severity, finding.about) == (Severity.NOTE, "dm-1")
    assert finding.command == "cryptsetup refresh --allow-discards 'a secret'"
    parity = [layer("md0", "md", ["sda"], facts={"level": "raid5"}), SSD]
    assert one(discard.RULE, parity).severity is Severity.NOTE
    mirror = [layer("md0", "md", ["sda"], facts={"level": "raid1"}), SSD]
    assert one(discard.RULE, mirror).severity is Severity.ADVICE
