"""Rules of geometry where there is more than one stripe: a volume on two arrays, stripes of stripes, and ways
down that differ."""

from __future__ import annotations

import copy

import pytest

from fsdyno.audit import read
from fsdyno.audit.evidence.ready import GEOMETRY, OFF_STRIPE
from fsdyno.audit.rules import extents, partition_start, pv_start, read_ahead, superblock_geometry
from fsdyno.audit.show import show
from fsdyno.lines import rendered
from tests.audit.made import (
    CHUNK,
    GIB,
    KIB,
    MIB,
    STRIPE,
    Record,
    found,
    judged,
    layer,
    named,
    no_costs,
    piece,
    record,
)

WIDE = 20 * STRIPE  # of the second array


def two_arrays() -> Record:
    """The volume has a second piece, on another array, whose data of LVM is off by a chunk."""
    made = record()
    second = copy.deepcopy(named(made, "md0")) | {"name": "md1", "node": "/dev/md1"}
    made["layers"].insert(2, second)
    made["layers"][0]["below"].append(piece("md1", CHUNK, start=3 * GIB))
    stripes = copy.deepcopy(made["striped"][0]) | {"on": "md1"}
    stripes["steps"] = [
        {"layer": "dm-1", "off": 0, "pv": False},
        {"layer": "md1", "off": CHUNK, "pv": True},
    ]
    stripes["pieces"] = [{"start": 3 * GIB, "size": 3 * GIB, "offset": CHUNK, "off": CHUNK, "off_chunk": 0}]
    made["striped"].append(stripes)
    return made


def on_another() -> Record:
    """The second array is made of the first and others, as RAID 0 of RAID 5 is: it is the uppermost one."""
    made = two_arrays()
    made["layers"][0]["below"] = [piece("md1", CHUNK)]
    made["layers"][1], made["layers"][2] = made["layers"][2], made["layers"][1]
    named(made, "md1")["below"] = [piece("md0", 0)]
    return made


def test_a_volume_on_two_arrays_is_judged_by_both() -> None:
    [finding] = found(pv_start.RULE, two_arrays())
    assert finding.about == "md1" and "--device /dev/md1" in finding.command
    assert found(extents.RULE, two_arrays()) == []


def test_what_is_off_on_the_second_array_is_drawn_there() -> None:
    drawn = rendered(show(judged(two_arrays()), no_costs), colour=False).partition("1. advice")[0]
    before, _, after = drawn.partition("md1 ")
    assert "off the stripe" not in before and "(64 KiB off the stripe)" in after


def test_stripes_below_others_are_not_asked_for() -> None:
    """Whatever lies on the upper stripes is cut by them before it comes to the lower ones."""
    made = on_another()
    assert [stripes.on for stripes in read(made).uppermost] == ["md1"]
    made["striped"][1]["pieces"][0]["off"] = 0
    made["striped"][0]["pieces"][0] |= {"off": CHUNK}
    made["striped"][0]["steps"][1]["off"] = CHUNK
    assert found(pv_start.RULE, made) == []


def test_the_order_of_stripes_in_a_record_does_not_matter() -> None:
    made = on_another()
    made["striped"].reverse()
    assert [stripes.on for stripes in read(made).uppermost] == ["md1"]


def test_stripes_far_below_others_are_below_them() -> None:
    made = on_another()
    named(made, "md1")["below"] = [piece("dm-5", 0)]
    made["layers"].insert(2, layer("dm-5", "crypt", [piece("md0", 0)]))
    assert [stripes.on for stripes in read(made).uppermost] == ["md1"]


def test_read_ahead_is_wanted_for_the_widest_array() -> None:
    made = two_arrays()
    made["striped"][1] |= {"stripe": WIDE, "read_ahead": 2 * WIDE}
    [finding] = found(read_ahead.RULE, made)
    assert finding.command == f"echo {2 * WIDE // KIB} > /sys/class/bdi/253:1/read_ahead_kb"
    del made["striped"][1]["read_ahead"]
    assert found(read_ahead.RULE, made) == []


def test_a_file_system_is_compared_with_what_the_agent_expects_of_all_arrays() -> None:
    made = two_arrays()
    made["filesystem"]["geometry"]["found"] = {"stride": 0, "stripe_width": 0}
    [finding] = found(superblock_geometry.RULE, made)
    assert "md0, md1" in finding.expected
    made["filesystem"]["geometry"]["expected"] = None
    assert found(superblock_geometry.RULE, made) == []


def two_ways(first: int, second: int, *, added: tuple[int, int] = (0, 0)) -> Record:
    """The volume has a piece on each of two partitions of the array, whose data of LVM is so much off; the
    volume adds so much to each."""
    made = record()
    made["layers"][0]["below"] = [piece("md0p1", MIB), piece("md0p2", MIB, start=GIB)]
    parts = [layer(f"md0p{n}", "partition", [piece("md0", n * STRIPE * 8)], pv_start=MIB) for n in (1, 2)]
    made["layers"][1:1] = parts
    made["striped"][0]["steps"] = [
        {"layer": "dm-1", "off": added[0], "pv": False},
        {"layer": "md0p1", "off": first, "pv": True},
        {"layer": "md0p1", "off": 0, "pv": False},
        {"layer": "md0p2", "off": second, "pv": True},
        {"layer": "md0p2", "off": 0, "pv": False},
    ]
    offs = [(first + added[0]) % STRIPE, (second + added[1]) % STRIPE]
    made["striped"][0]["pieces"] = [
        {"start": n * GIB, "size": GIB, "offset": MIB, "off": off, "off_chunk": off % CHUNK}
        for n, off in enumerate(offs)
    ]
    return made


def test_what_one_way_down_adds_is_not_laid_to_pieces_on_another() -> None:
    """Summed over all ways, a piece that is right would be off, and one that is off right."""
    assert found(extents.RULE, two_ways(CHUNK, CHUNK)) == []
    assert found(extents.RULE, two_ways(0, CHUNK)) == []
    assert [finding.about for finding in found(pv_start.RULE, two_ways(0, CHUNK))] == ["md0p2"]


@pytest.mark.parametrize(
    ("first", "second", "added", "which"),
    [
        (0, 0, (0, CHUNK), "piece 2 of 2"),
        (CHUNK, 0, (0, CHUNK), "piece 2 of 2"),
        (CHUNK, CHUNK, (CHUNK, 0), "piece 1 of 2"),
        (0, CHUNK, (2 * CHUNK, 0), "piece 1 of 2"),
    ],
)
def test_what_the_volume_adds_is_laid_to_its_extents(
    first: int, second: int, added: tuple[int, int], which: str
) -> None:
    [finding] = found(extents.RULE, two_ways(first, second, added=added))
    assert finding.found.startswith(which)


def test_what_lies_above_a_volume_is_not_laid_to_it() -> None:
    made = record()
    made["layers"].insert(0, layer("dm-2", "crypt", [piece("dm-1", CHUNK)]))
    made["striped"][0]["steps"].insert(0, {"layer": "dm-2", "off": CHUNK, "pv": False})
    made["striped"][0]["pieces"][0]["off"] = CHUNK
    assert [judged_.rule.name for judged_ in judged(made).found] == ["crypt-start"]


def test_a_partition_on_the_second_array_is_found() -> None:
    made = two_arrays()
    made["layers"][0]["below"][1] = piece("md1p1", 0, start=3 * GIB)
    made["layers"].insert(2, layer("md1p1", "partition", [piece("md1", MIB)]))
    made["striped"][1]["steps"][1] = {"layer": "md1p1", "off": MIB % STRIPE, "pv": False}
    [finding] = found(partition_start.RULE, made)
    assert "the stripe of md1" in finding.expected


def test_costs_are_quoted_where_any_of_the_arrays_keeps_parity() -> None:
    made = two_arrays()
    assert OFF_STRIPE.applies(read(made)) and GEOMETRY.applies(read(made))
    named(made, "md1")["facts"]["level"] = "raid0"
    assert not OFF_STRIPE.applies(read(made)) and GEOMETRY.applies(read(made))
