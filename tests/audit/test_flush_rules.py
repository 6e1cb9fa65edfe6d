"""Rules of what is lost when power fails: barriers, and layers that drop flushes.

What each one finds on a small stack, and beside it what it must not find.
"""

from __future__ import annotations

from typing import Any

import pytest

from fsdyno.audit.rule import Severity
from fsdyno.audit.rules import barriers_off, cache_without_flushes
from tests.audit.small import BACK, OPTIONS, THROUGH, found, layer, one

# Barriers


def test_no_barriers_above_a_volatile_cache_are_a_danger_with_the_command_that_mends_it() -> None:
    off = {"barriers": {"on": False, "off_by": "nobarrier"}, "commands": {"barriers_on": "mount -o …"}}
    finding = one(barriers_off.RULE, [layer("sda")], **off)
    assert finding.severity is Severity.DANGER
    assert "nobarrier" in finding.found and "/dev/sda" in finding.found
    assert finding.command == "mount -o …"


def test_a_type_that_never_flushes_is_told_to_turn_the_disk_cache_off() -> None:
    finding = one(barriers_off.RULE, [layer("sda")], barriers={"on": False, "off_by": "it never does"})
    assert finding.command.startswith("# ") and finding.command.endswith("hdparm -W0 /dev/sda")


def test_all_disks_whose_cache_has_to_go_are_named() -> None:
    disks = ["sda", "sdb", "sdc", "sdd"]
    layers = [layer("md0", "md", disks), *(layer(disk) for disk in disks)]
    finding = one(barriers_off.RULE, layers, barriers={"on": False})
    assert finding.command.endswith("hdparm -W0 /dev/sda /dev/sdb /dev/sdc /dev/sdd")


def test_a_loop_device_has_no_cache_that_could_be_turned_off() -> None:
    finding = one(barriers_off.RULE, [layer("loop0", "loop")], barriers={"on": False})
    assert "hdparm" not in finding.command and "/dev/loop0" in finding.command


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
