"""The advice for arrays against what a kernel makes of real ones, and what mkfs finds on them: one boot,
one array after the other on the same sparse disks."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, field
from typing import Any

import pytest

from fsdyno.rig import Rig
from tests.cli.fixtures import real_agent
from tests.guest.script import NO_GUEST, needs_runner, run_in_guest

PARITY = (
    *("left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric"),
    *("parity-first", "parity-last"),
)
# What only RAID 6 has: other controllers' layouts, and those of a RAID 5 with a second parity behind it.
PARITY_OF_SIX = (
    *("ddf-zero-restart", "ddf-N-restart", "ddf-N-continue"),
    *("left-symmetric-6", "left-asymmetric-6", "right-symmetric-6", "right-asymmetric-6", "parity-first-6"),
)
LETTERS = {"near": "n", "far": "f", "offset": "o"}


@dataclass(frozen=True)
class Array:
    """An array, and the words of mdadm and of `align` for it."""

    level: int
    members: int
    kib: int = 64
    layout: str | None = None

    @property
    def options(self) -> dict[str, str | int]:
        """As `align` takes it."""
        found: dict[str, str | int] = {"level": self.level, "members": self.members}
        if self.level != 1:
            found["chunk"] = self.kib << 10
        return found | ({"layout": self.layout} if self.layout else {})

    @property
    def mdadm(self) -> str:
        """As mdadm takes it."""
        words = [f"--level={self.level} --raid-devices={self.members}"]
        words += [] if self.level == 1 else [f"--chunk={self.kib}"]
        words += [] if self.level == 0 else ["--assume-clean --bitmap=none"]
        if self.layout:
            copies = re.fullmatch(r"([a-z]+)(\d+)", self.layout)
            words.append(f"--layout={LETTERS[copies[1]] + copies[2] if copies else self.layout}")
        return " ".join(words)


# All levels and layouts; members and chunks so that no two dimensions hide each other.
ARRAYS = [
    *(Array(0, members, kib) for members, kib in ((2, 512), (3, 64), (3, 12))),
    *(Array(1, members) for members in (2, 3)),
    Array(5, 4),
    *(Array(5, 4, layout=layout) for layout in PARITY),
    Array(5, 7, 4),
    Array(5, 2),
    Array(6, 6, 128),
    *(Array(6, 5, layout=layout) for layout in (*PARITY, *PARITY_OF_SIX)),
    *(Array(10, 4, layout=layout) for layout in ("near2", "far2", "offset2")),
    *(Array(10, 5, layout=layout) for layout in ("near2", "far2", "offset3")),
    *(Array(10, 6, 256, layout=layout) for layout in ("near3", "far3", "near4")),
    Array(10, 7),
]
RAID5 = Array(5, 4)
IN_USE = (("wide", "mounted"), ("commands", "held"))
WIDE = Array(0, 6, 1024)  # two of its stripes are more than any file system reads ahead by itself


def commands(advice: dict[str, Any], kind: str, filesystem: str | None = None) -> list[str]:
    """Commands of one kind."""
    found = [step for step in advice["steps"] if step["kind"] == kind]
    return [step["command"] for step in found if filesystem in (None, step.get("filesystem"))]


def named(advice: dict[str, Any]) -> dict[str, Any]:
    """Advice for a described array, with the name of the real one in place of the one that no device has."""
    found: dict[str, Any] = json.loads(json.dumps(advice).replace("/dev/ARRAY", "/dev/md0"))
    return found


def mbr(start: int, sectors: int = 2 << 20) -> str:
    """A command that makes one partition behind `start` sectors; sfdisk is not everywhere."""
    entry = struct.pack("<B3sB3sII", 0, b"\0\0\0", 0x83, b"\0\0\0", start, sectors)
    octal = "".join(f"\\{byte:03o}" for byte in entry + bytes(48) + b"\x55\xaa")
    return (
        f"printf '{octal}' | dd of=/dev/md0 bs=1 seek=446 conv=notrunc status=none; "
        "sync /dev/md0; blockdev --rereadpt /dev/md0; sleep 0.5"
    )


def script(agent: str, by_hand: dict[Array, dict[str, Any]]) -> str:
    """Prints what is seen as lines `@@ CASE KEY: VALUE`."""
    lines = [
        "for module in md raid0 raid1 raid456 raid10 dm_mod ext4 xfs btrfs; do load $module; done",
        f"agent={agent}",
        "q=/sys/block/md0/queue",
        "see() { echo \"@@ $case $1: $(shift; \"$@\" 2>&1 | tr '\\n' ' ')\"; }",
        "create() { n=$1; shift; mdadm --create /dev/md0 --run --quiet $* $(ls /dev/vd? | head -n $n) >&2; }",
        "stop() { wipefs -qa /dev/md0 >&2; mdadm --stop --quiet /dev/md0 >&2; }",
        "case=tools; see mke2fs mke2fs -V",
    ]
    for index, (array, advice) in enumerate(by_hand.items()):
        lines += [
            f"case={index}; create {array.members} {array.mdadm}",
            *(
                f"see {name} cat $q/{name}"
                for name in ("minimum_io_size", "optimal_io_size", "read_ahead_kb")
            ),
            "see rotational cat $q/rotational",
            "see align $agent align --device /dev/md0",
            "see xfs mkfs.xfs -N -f /dev/md0",
            f"see xfs_told {commands(advice, 'mkfs', 'xfs')[0].replace('mkfs.xfs', 'mkfs.xfs -N -f')}",
            "see ext mke2fs -t ext4 -n -v -F /dev/md0",
            f"see ext_told {commands(advice, 'mkfs', 'ext4')[0].replace('mkfs.ext4', 'mkfs.ext4 -n -v -F')}",
            "stop",
        ]
    advice = by_hand[RAID5]
    lines += [f"case=commands; create {RAID5.members} {RAID5.mdadm}"]
    for name in ("ext4", "xfs", "btrfs"):
        [mkfs], [mount] = commands(advice, "mkfs", name), commands(advice, "mount", name)
        made = f"{mkfs} >/dev/null && {mount} && grep -w /mnt /proc/mounts && umount /mnt"
        lines += [f"see {name} eval {json.dumps(made)}", "wipefs -qa /dev/md0"]
    lines += ["blockdev --setra 8 /dev/md0", *commands(advice, "read_ahead"), "see set cat $q/read_ahead_kb"]
    stripe_off, aligned = 63, advice["numbers"]["data_alignment"] // 512
    for name, start in (("sector_63", stripe_off), ("aligned", aligned)):
        lines += [mbr(start), f"see {name} $agent align --device /dev/md0p1", "wipefs -qa /dev/md0"]
        lines += ["blockdev --rereadpt /dev/md0"]
    [pvcreate], [vgcreate], [lvcreate] = (commands(advice, k) for k in ("pvcreate", "vgcreate", "lvcreate"))
    for name, group in (("whole_stripes", vgcreate), ("four_mib", "vgcreate vg0 /dev/md0")):
        lines += [
            f"{{ {pvcreate}; {group}; lvcreate -n first -L 1000m vg0; {lvcreate}; }} >&2",
            f"see {name} $agent align --device /dev/vg0/data",
            "see held $agent align --device /dev/md0",
            "{ vgremove -ff -y vg0; pvremove -ff -y /dev/md0; } >&2",
        ]
    wide = by_hand[WIDE]
    lines += [
        f"stop; case=wide; create {WIDE.members} {WIDE.mdadm}",
        f"{commands(wide, 'mkfs', 'btrfs')[0]} >&2; {commands(wide, 'mount', 'btrfs')[0]}",
        "see mounted $agent align --device /dev/md0",
        "see own cat /sys/fs/btrfs/*/bdi/read_ahead_kb",
        *commands(wide, "read_ahead", "btrfs"),
        "see set cat /sys/fs/btrfs/*/bdi/read_ahead_kb",
        "umount /mnt; stop",
    ]
    return "\n".join(lines)


@dataclass
class Seen:
    """What the guest said, by case and key."""

    by_hand: dict[Array, dict[str, Any]]
    said: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, array: Array) -> dict[str, str]:
        """What was said of an array."""
        return self.said[str(list(self.by_hand).index(array))]


@pytest.fixture(scope="module")
def seen() -> Seen:
    """One boot for all tests."""
    needs_runner()
    rig = Rig([str(real_agent())], privileged=False)
    seen = Seen({array: named(rig.align(array.options)) for array in [*ARRAYS, WIDE]})
    done = run_in_guest(script(str(real_agent()), seen.by_hand), disks=7, size=2 << 30, limit=900)
    if done.code == NO_GUEST:
        pytest.skip(f"no guests here: {done.err}")
    for line in done.out.splitlines():
        if found := re.fullmatch(r"@@ (\S+) (\w+): (.*)", line):
            case, key, value = found.groups()
            seen.said.setdefault(case, {})[key] = value.strip()
    assert "set" in seen.said.get("wide", {}), f"the script did not come to its end: {done.err}"
    return seen


def ids(array: Array) -> str:
    """`raid10-5-64k-far2`."""
    return "-".join(filter(None, (f"raid{array.level}", str(array.members), f"{array.kib}k", array.layout)))


@pytest.mark.parametrize("array", ARRAYS, ids=ids)
class TestArray:
    """What holds for every array."""

    def test_a_live_array_is_advised_as_it_was_described(self, seen: Seen, array: Array) -> None:
        live, by_hand = json.loads(seen.of(array)["align"]), seen.by_hand[array]
        assert live["array"].pop("device") == "/dev/md0"
        assert live["array"] == by_hand["array"]
        assert live.get("numbers") == by_hand.get("numbers")
        assert live["steps"] == by_hand["steps"]
        assert not [note for note in live["notes"] if "announces a chunk" in note], live["notes"]

    def test_the_kernel_announces_these_numbers(self, seen: Seen, array: Array) -> None:
        kernel, numbers = seen.of(array), seen.by_hand[array].get("numbers")
        if array.level == 1:
            assert (numbers, kernel["optimal_io_size"]) == (None, "0")
            return
        assert numbers is not None
        assert int(kernel["minimum_io_size"]) == numbers["minimum_io_size"]
        assert int(kernel["optimal_io_size"]) == numbers["optimal_io_size"]
        # md never has less than the 128 KiB of any disk.
        assert int(kernel["read_ahead_kb"]) << 10 == max(numbers["read_ahead"], 128 << 10)

    def test_mkfs_finds_what_it_would_be_told(self, seen: Seen, array: Array) -> None:
        found, numbers = seen.of(array), seen.by_hand[array].get("numbers")
        detected = re.search(r"sunit=(\d+) +swidth=(\d+) blks", found["xfs"])
        assert detected, found["xfs"]
        blocks = (numbers["su"] // 4096, numbers["stripe"] // 4096) if numbers else (0, 0)
        assert tuple(map(int, detected.groups())) == blocks
        assert found["xfs_told"] == found["xfs"]

        stride = (numbers["stride"], numbers["stripe_width"]) if numbers else (0, 0)
        told = re.search(r"Stride=(\d+) blocks, Stripe width=(\d+) blocks", found["ext_told"])
        assert told and tuple(map(int, told.groups())) == stride, found["ext_told"]
        version = re.search(r"mke2fs (\d+)\.(\d+)\.(\d+)", seen.said["tools"]["mke2fs"])
        assert version, seen.said["tools"]
        if tuple(map(int, version.groups())) >= (1, 47, 3) and found["rotational"] == "0":
            return  # it leaves out the stripe width, which is why it is told
        # It takes a chunk of one block for a disk without one.
        expected = (stride[0] if stride[0] > 1 else 0, stride[1])
        detected = re.search(r"Stride=(\d+) blocks, Stripe width=(\d+) blocks", found["ext"])
        assert detected and tuple(map(int, detected.groups())) == expected, found["ext"]


def test_the_commands_do_what_they_say(seen: Seen) -> None:
    said = seen.said["commands"]
    for name in ("ext4", "xfs", "btrfs"):
        assert re.search(rf"/dev/md0 /mnt {name} \S*noatime\S* 0 0$", said[name]), said[name]
    assert "stripe=48" in said["ext4"] and "sunit=128,swidth=384" in said["xfs"]
    numbers = seen.by_hand[RAID5]["numbers"]
    assert int(said["set"]) << 10 == numbers["read_ahead"]


def test_a_file_system_with_its_own_read_ahead_is_set_by_its_own_command(seen: Seen) -> None:
    numbers, said = seen.by_hand[WIDE]["numbers"], seen.said["wide"]
    assert int(said["own"]) << 10 < numbers["read_ahead"]
    assert int(said["set"]) << 10 == numbers["read_ahead"]


def test_of_a_device_in_use_that_is_said_before_all_else(seen: Seen) -> None:
    first = {case: json.loads(seen.said[case][key])["warnings"][0] for case, key in IN_USE}
    assert first["wide"] == "/dev/md0 is in use: mounted on /mnt"
    held = "held by /dev/mapper/vg0-first, /dev/mapper/vg0-data"
    assert first["commands"] == f"/dev/md0 is in use: {held}"
    [lost] = seen.by_hand[RAID5]["warnings"]
    assert "is lost" in lost and "in use" not in lost


def off(answer: str) -> str | None:
    """What the advice says of a device that is off the stripes; None if it is on them."""
    notes = json.loads(answer)["notes"]
    return next((note for note in notes if "into a stripe" in note or "off the stripes" in note), None)


def test_a_partition_that_begins_within_a_stripe_is_told(seen: Seen) -> None:
    said = seen.said["commands"]
    note = off(said["sector_63"])
    assert note and "/dev/md0p1 begins 32256 bytes into a stripe of /dev/md0 (192 KiB)" in note
    assert "its start at 3 MiB" in note
    assert off(said["aligned"]) is None
    kinds = [step["kind"] for step in json.loads(said["aligned"])["steps"]]
    assert "partition" not in kinds and "pvcreate" in kinds


def test_a_second_volume_begins_with_a_stripe_if_extents_are_whole_stripes(seen: Seen) -> None:
    said = seen.said["commands"]
    assert off(said["whole_stripes"]) is None
    note = off(said["four_mib"])
    assert note and "extents of 6 MiB" in note
    kinds = {step["kind"] for step in json.loads(said["four_mib"])["steps"]}
    assert kinds == {"mkfs", "mount", "read_ahead"}
