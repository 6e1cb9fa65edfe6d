"""Rules of geometry on a whole stack made by hand: it is changed in one fact, and the rule whose fact that is
finds it, while no other one does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fsdyno.audit.evidence import Cost
from fsdyno.audit.rule import Severity
from fsdyno.audit.rules import (
    alignment_offset,
    crypt_start,
    extents,
    md_data_offset,
    optimal_io_size,
    partition_start,
    pv_start,
    sector_emulation,
    superblock_geometry,
)
from tests.audit.made import (
    CHUNK,
    KIB,
    MIB,
    STRIPE,
    Record,
    found,
    judged,
    layer,
    named,
    off,
    piece,
    queue,
    record,
)


def rules(made: Record) -> list[str]:
    """Names of the rules that found something."""
    return [judged.rule.name for judged in judged(made).found]


def one(made: Record, name: str) -> str:
    """The finding as text, if nothing else is found."""
    assert rules(made) == [name]
    finding = judged(made).found[0].finding
    return f"{finding.found}; {finding.expected}; {finding.command}"


def above_a_disk(top: Record) -> Record:
    """One layer on one disk."""
    made = on_a_disk()
    made["layers"].insert(0, top)
    made["filesystem"] |= {"on": [top["name"]], "geometry": None}
    made["mount"]["read_ahead"] = 128 * KIB
    return made


def test_nothing_is_found_in_a_stack_that_is_right() -> None:
    assert rules(record()) == []


# Where things begin


def test_a_partition_at_sector_63_is_found_and_named_with_its_sector() -> None:
    made = record()
    named(made, "sdb1")["below"][0]["offset"] = 63 * 512
    text = one(made, "partition-start")
    assert "/dev/sdb1" in text and "sector 63" in text and "31.5 KiB" in text


def test_a_disk_that_is_shifted_on_purpose_wants_partitions_that_are_too() -> None:
    made = record()
    named(made, "sdb")["queue"] = queue(alignment_offset=3584)
    named(made, "sdb1")["below"][0]["offset"] = 63 * 512
    assert rules(made) == []
    named(made, "sdb1")["below"][0]["offset"] = MIB
    assert rules(made) == ["partition-start"]


def test_nothing_that_makes_a_table_anew_can_be_pasted() -> None:
    """The disk may have more partitions than the record shows, and all of them would be lost."""
    made = record()
    named(made, "sdb1")["below"][0]["offset"] = 63 * 512
    command = judged(made).found[0].finding.command
    assert command.startswith("# ") and "sfdisk" not in command and "start=" not in command
    assert "loses what is in it" in command and "every other partition" in command


def test_a_disk_with_small_blocks_is_not_said_to_read_first() -> None:
    made = record()
    named(made, "sdb1")["below"][0]["offset"] = 63 * 512
    assert "across two of the medium" in judged(made).found[0].finding.why
    named(made, "sdb")["queue"] = queue(physical_block_size=512)
    assert "blocks are larger than it tells" in judged(made).found[0].finding.why


@pytest.mark.parametrize("size", [16 * KIB, MIB])
def test_what_a_disk_says_beyond_a_page_raises_no_advice(size: int) -> None:
    """Partitions at 1 MiB + 4 KiB and blocks of 4 KiB are right on NVMe that tells 16 KiB and more."""
    made = record()
    for one_of in made["layers"]:
        one_of["queue"]["physical_block_size"] = size
    for name in ("sda1", "sdb1", "sdc1", "sdd1"):
        named(made, name)["below"][0]["offset"] = MIB + 4 * KIB
    assert rules(made) == []
    made["filesystem"]["upkeep"]["smallest_write"] = 512
    assert "4 KiB" in one(made, "sector-emulation")


def test_a_partition_within_a_stripe_is_told_where_to_begin_by_align() -> None:
    made = record()
    made["layers"][0] = layer("md0p1", "partition", [piece("md0", MIB)])
    made["filesystem"]["on"] = ["md0p1"]
    made["striped"][0]["steps"] = [{"layer": "md0p1", "off": MIB % STRIPE, "pv": False}]
    made["striped"][0]["pieces"][0]["off"] = MIB % STRIPE
    text = one(made, "partition-start")
    assert "64 KiB behind the start of a stripe" in text and "fsdyno align --device /dev/md0" in text


def test_a_partition_within_a_block_of_an_array_is_told_of_the_stripe_and_not_of_a_mib() -> None:
    """1 MiB is no multiple of 192 KiB: it would be wrong again. So too where something makes up for the
    start, so that no stripe is off in all."""
    made = record()
    made["layers"][0] = layer("md0p1", "partition", [piece("md0", 63 * 512)])
    made["filesystem"]["on"] = ["md0p1"]
    striped = made["striped"][0]
    striped["steps"] = [{"layer": "md0p1", "off": 63 * 512, "pv": False}]
    for off_all in (63 * 512, 0):
        striped["pieces"][0]["off"] = off_all
        text = one(made, "partition-start")
        assert "sector 63" in text and "a multiple of 192 KiB, the stripe of md0" in text
        assert "fsdyno align --device /dev/md0" in text and "1 MiB" not in text


def test_only_what_is_off_the_stripe_has_the_cost_of_that() -> None:
    """What a start within a block costs no plan measures, also where another partition is off the stripe."""
    made = off(record(), dm_1=CHUNK)
    made["layers"][0] = {**layer("md0p1", "partition", [piece("md0", MIB)]), "name": "dm-1"}
    named(made, "sdb1")["below"][0]["offset"] = 63 * 512
    found_ = {judged_.finding.about: judged_ for judged_ in judged(made).found}
    asked = Cost(("a plan would",), {})
    assert found_["dm-1"].cost(lambda rule: asked) is asked
    assert found_["sdb1"].cost(lambda rule: asked).text == (
        "not measured here, and no ready plan measures it",
    )


@pytest.mark.parametrize(("start", "wrong"), [(MIB + 2 * KIB, True), (MIB + 4 * KIB, False), (MIB, False)])
def test_data_of_lvm_within_a_block_of_a_plain_disk_is_found(start: int, wrong: bool) -> None:
    made = above_a_disk(layer("dm-1", "lvm", [piece("sda", 2 * start)], group="vg", volume="one"))
    named(made, "sda")["facts"] |= {"pv_start": start, "pv_group": "vg"}
    # What the kernel tells of the volume follows from it.
    made["layers"][0]["queue"]["alignment_offset"] = -start % 4096
    assert rules(made) == (["pv-start"] if wrong else [])
    if wrong:
        text = one(made, "pv-start")
        assert "1026 KiB" in text and "a multiple of 1 MiB" in text and text.endswith("--dataalignment 1m")


@pytest.mark.parametrize(("start", "wrong"), [(63 * 512, True), (16 * MIB, False), (2 * MIB + 4096, False)])
def test_encrypted_data_within_a_block_of_a_plain_disk_is_found(start: int, wrong: bool) -> None:
    made = above_a_disk(layer("dm-1", "crypt", [piece("sda", start)], cipher="aes-xts-plain64"))
    assert rules(made) == (["crypt-start"] if wrong else [])
    if wrong:
        text = one(made, "crypt-start")
        assert "31.5 KiB" in text and text.endswith("a multiple of 2048")


def test_what_makes_up_for_a_partition_within_a_block_is_right_and_only_the_partition_is_blamed() -> None:
    """The kernel tells of the partition that its first whole block comes 512 bytes behind its start."""
    made = above_a_disk(layer("dm-1", "lvm", [piece("sda1", 4 * MIB)], group="vg", volume="one"))
    partition = layer("sda1", "partition", [piece("sda", 63 * 512)], pv_start=MIB, pv_group="vg")
    made["layers"].insert(1, partition | {"queue": queue(alignment_offset=512)})
    for start in (MIB, MIB + 512):
        partition["facts"]["pv_start"] = start
        assert rules(made) == ["partition-start"]
    partition["facts"]["pv_start"] = MIB + 1024
    assert rules(made) == ["partition-start", "pv-start"]


def test_data_within_a_block_of_an_array_is_told_of_its_stripe() -> None:
    """Where the volume makes up for it, so that no stripe is off in all."""
    made = off(record(), md0=2 * KIB, dm_1=STRIPE - 2 * KIB)
    named(made, "md0")["facts"]["pv_start"] += 2 * KIB
    text = one(made, "pv-start")
    assert "a multiple of 192 KiB" in text and text.endswith("fsdyno align --device /dev/md0")


def test_data_of_lvm_within_a_stripe_is_blamed_and_not_the_extents() -> None:
    text = one(off(record(), md0=CHUNK), "pv-start")
    assert "1152 KiB" in text and "64 KiB behind" in text and "pvcreate --dataalignment" in text


def test_a_volume_within_a_stripe_is_blamed_where_the_data_of_lvm_begins_with_one() -> None:
    text = one(off(record(), dm_1=2 * CHUNK), "extents")
    assert "/dev/mapper/vg-two" in text and "128 KiB behind" in text and "vgcreate -s" in text


def test_both_are_blamed_where_both_add_to_it() -> None:
    made = off(record(), md0=16 * KIB, dm_1=CHUNK)
    assert rules(made) == ["extents", "pv-start"]
    extents_, pv = (judged_.finding.found for judged_ in judged(made).found)
    assert "begins 80 KiB behind the start of a stripe, to which it adds 64 KiB itself" in extents_
    assert "16 KiB behind the start of a stripe" in pv


def test_what_is_off_the_stripe_only_with_what_lies_below_is_not_said_to_be_so_far_behind_one() -> None:
    made = record()
    made["layers"].insert(0, layer("dm-2", "crypt", [piece("dm-1", CHUNK)]))
    steps = made["striped"][0]["steps"]
    steps.insert(0, {"layer": "dm-2", "off": CHUNK, "pv": False})
    steps[1]["off"] = 4096
    made["striped"][0]["pieces"][0] |= {"off": CHUNK + 4096, "off_chunk": 4096}
    volume, encrypted = (judged_.finding for judged_ in judged(made).found)
    assert encrypted.about == "dm-2" and "adds 64 KiB to what lies below, and is off" in encrypted.found
    assert volume.about == "dm-1" and "begins 4 KiB behind the start of a stripe" in volume.found


def test_steps_that_make_up_for_each_other_are_right() -> None:
    assert rules(off(record(), md0=CHUNK, dm_1=2 * CHUNK)) == []


def test_a_later_piece_of_a_volume_is_named_by_its_number() -> None:
    made = record()
    first = made["striped"][0]["pieces"][0]
    made["striped"][0]["pieces"] += [{**first, "start": MIB * n, "off": 4096} for n in (1, 2)]
    text = one(made, "extents")
    assert "piece 2 of 3" in text and "4 KiB behind" in text and "1 more" in text


def test_without_parity_only_what_is_off_the_chunk_costs() -> None:
    made = off(record(), dm_1=CHUNK)
    named(made, "md0")["facts"]["level"] = "raid10"
    assert rules(made) == []
    made = off(made, dm_1=CHUNK + 4096)
    assert rules(made) == ["extents"]
    # Older agents did not tell, and it is not computed here.
    del made["striped"][0]["pieces"][0]["off_chunk"]
    assert rules(made) == []


def test_encrypted_data_within_a_stripe_is_found() -> None:
    made = record()
    made["layers"][0] = layer("dm-0", "crypt", [piece("md0", 16 * MIB)], cipher="aes-xts-plain64")
    made["striped"][0]["steps"] = [{"layer": "dm-0", "off": 16 * MIB % STRIPE, "pv": False}]
    made["striped"][0]["pieces"][0]["off"] = 16 * MIB % STRIPE
    text = one(made, "crypt-start")
    assert "16384 KiB" in text and "64 KiB behind" in text
    # The option counts sectors, whatever is said in KiB beside it.
    assert "--offset, in sectors of 512 bytes" in text


def test_data_of_members_within_a_block_is_found_once_for_all_of_them() -> None:
    made = record()
    for lower in named(made, "md0")["below"]:
        lower["offset"] = MIB + 512
    text = one(made, "md-data-offset")
    assert "sda1, sdb1, sdc1 and 1 more" in text
    command = judged(made).found[0].finding.command
    assert "mdadm --create" not in command and "loses all that is on it" in command


# What superblocks and disks say


@pytest.mark.parametrize(
    ("numbers", "words"),
    [({"stride": 0, "stripe_width": 0}, "(none)"), ({"stride": 32, "stripe_width": 320}, "stripe_width=320")],
)
def test_another_stripe_in_the_superblock_is_found_with_the_command_that_tells_it(
    numbers: dict[str, int], words: str
) -> None:
    made = record()
    made["filesystem"]["geometry"]["found"] = numbers
    made["filesystem"]["commands"]["tell_geometry"] = "tune2fs -E stride=16 /dev/mapper/vg-two"
    text = one(made, "superblock-geometry")
    assert words in text and "stripe_width=48" in text and "tune2fs" in text
    del made["filesystem"]["commands"]["tell_geometry"]
    assert "fsdyno align --device /dev/md0" in one(made, "superblock-geometry")


def test_a_file_system_without_any_stripe_is_not_said_to_place_by_one() -> None:
    made = record()
    made["filesystem"]["geometry"]["found"] = {"stride": 32, "stripe_width": 320}
    assert "writes by stripes" in judged(made).found[0].finding.why
    made["filesystem"]["geometry"]["found"] = {"stride": 0, "stripe_width": 0}
    [wrong] = judged(made).found
    assert wrong.finding.severity is Severity.ADVICE
    assert "without regard to stripes: partial stripes cost reads" in wrong.finding.why
    named(made, "md0")["facts"]["level"] = "raid0"
    [noted] = judged(made).found
    assert noted.finding.severity is Severity.NOTE and "cost reads" not in noted.finding.why
    assert judged(made).worst is None


def test_a_stripe_that_is_not_known_is_compared_with_nothing() -> None:
    made = record()
    del made["filesystem"]["geometry"]["expected"]
    made["filesystem"]["geometry"]["found"] = {"stride": 3, "stripe_width": 5}
    assert rules(made) == []


@pytest.mark.parametrize("size", [65535 * 512, 4096 + 512, 32 * MIB])
def test_an_optimal_size_that_is_no_stripe_is_found(size: int) -> None:
    made = record()
    named(made, "sda")["queue"]["optimal_io_size"] = size
    assert str(size) in one(made, "optimal-io-size")


@pytest.mark.parametrize("size", [0, STRIPE, MIB, 16 * MIB, 22 * MIB])
def test_an_optimal_size_that_may_be_a_stripe_is_believed(size: int) -> None:
    made = record()
    named(made, "sda")["queue"]["optimal_io_size"] = size
    assert rules(made) == []


def on_a_disk() -> Record:
    made = record()
    made["layers"] = [named(made, "sda")]
    made["striped"] = []
    made["filesystem"]["on"] = ["sda"]
    made["filesystem"]["geometry"] = {"found": {"stride": 0, "stripe_width": 0}}
    return made


def test_an_optimal_size_that_reached_the_superblock_is_told() -> None:
    made = on_a_disk()
    made["layers"][0]["queue"]["optimal_io_size"] = 65535 * 512
    assert "works with it" not in one(made, "optimal-io-size")
    made["filesystem"]["geometry"]["found"]["stripe_width"] = 65535 * 512 // 4096
    assert "works with it: stripe_width=8191" in one(made, "optimal-io-size")


def test_pieces_smaller_than_the_medium_s_blocks_are_found_on_disks_that_emulate() -> None:
    made = record()
    made["filesystem"]["upkeep"]["smallest_write"] = 512
    text = one(made, "sector-emulation")
    assert "512 B" in text and "4 KiB" in text
    for one_of in made["layers"]:
        one_of["queue"]["physical_block_size"] = 512
    assert rules(made) == []


def test_a_device_that_the_kernel_calls_misaligned_is_found_at_its_lowest() -> None:
    made = record()
    for name in ("dm-1", "md0"):
        named(made, name)["queue"]["alignment_offset"] = -1
    assert "/dev/md0" in one(made, "alignment-offset")


def test_what_another_rule_explains_is_not_told_again_as_misaligned() -> None:
    made = record()
    named(made, "md0")["queue"]["alignment_offset"] = -1
    named(made, "sda1")["below"][0]["offset"] = 63 * 512
    assert rules(made) == ["partition-start"]


# What was not recorded is no finding


def _no_queues(made: Record) -> None:
    for one_of in made["layers"]:
        one_of["queue"] = {}


def _no_facts(made: Record) -> None:
    for one_of in made["layers"]:
        one_of["facts"] = {}


def _no_segments(made: Record) -> None:
    made["layers"][0] |= {"below": [], "somewhere_on": ["md0"]}
    made["striped"][0] |= {"pieces": [], "steps": []}


def _no_file_system(made: Record) -> None:
    del made["filesystem"]


@pytest.mark.parametrize("forget", [_no_queues, _no_facts, _no_segments, _no_file_system])
def test_rules_of_geometry_say_nothing_of_what_they_do_not_know(forget: Callable[[Record], None]) -> None:
    made = record()
    forget(made)
    for rule in (
        alignment_offset,
        crypt_start,
        extents,
        md_data_offset,
        optimal_io_size,
        partition_start,
        pv_start,
        sector_emulation,
        superblock_geometry,
    ):
        assert found(rule.RULE, made) == [], rule.RULE.name
