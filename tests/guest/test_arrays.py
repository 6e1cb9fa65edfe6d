"""Arrays and volumes in a guest: what stands is what was asked for, what mkfs finds of it is what the kernel
announces, and what a write costs is counted at the members. All are sparse files, so nothing is timed.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fsdyno.guest import cache_folder
from fsdyno.rig import Rig
from tests.guest.bench import GIB, MIB, SMALL, Bench, sparse, spec, stream, traces, tree

KIB = 1 << 10
CHUNK = 64 * KIB
CLEAN = {"resync": "assume_clean"}
Phases = list[dict[str, Any]]

LARGE = 24 * MIB
RAID5 = {"level": 5, "chunk": CHUNK, **CLEAN}
STRIPE = 3 * CHUNK
"""Of a RAID 5 of 4."""


def members(count: int) -> list[dict[str, Any]]:
    """Devices of 1 GiB: mkfs.xfs takes no notice of smaller arrays. All tests use these, so that one guest
    serves them."""
    return sparse(GIB, count)


def aligned(superblock: dict[str, Any], chunk: int, data_disks: int) -> bool:
    """Whether the superblock has this geometry, in its own units."""
    if "stride" in superblock:
        block = superblock["block_size"]
        return (superblock["stride"], superblock["stripe_width"]) == (
            chunk // block,
            chunk // block * data_disks,
        )
    return (superblock["sunit"], superblock["swidth"]) == (chunk // 512, chunk // 512 * data_disks)


@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
def test_a_raid_6_of_12_with_a_volume_group_on_it(bench: Bench, filesystem: str) -> None:
    array = {"level": 6, "chunk": 128 * KIB, **CLEAN}
    phases: Phases = [
        {"mkfs": {}}, {"mount": {}}, stream("write", 1280 * KIB), tree("create", sync="file"),
        {"unmount": {}}, {"check": {}},
    ]  # fmt: skip
    on = spec(filesystem, phases, members(12), array=array, lvm={"extent": 5 * MIB})
    trial = bench.run(on).ok()
    facts = trial.built("array")
    assert (facts["members"], facts["data_disks"], facts["stripe"]) == (12, 10, 1280 * KIB)
    volume = trial.built("lvm")
    assert (volume["extent"], volume["off_stripe"], volume["aligned"]) == (5 * MIB, 0, True)
    superblock = trial.built("file_system")
    assert aligned(superblock, 128 * KIB, 10) and superblock["aligned"], superblock
    write = trial.phase("write")
    assert len(write["leaves"]) == 12 and all(leaf["write_bytes"] > 0 for leaf in write["leaves"])
    assert write["top"]["write_bytes"] >= LARGE
    assert trial.leaves("create", "flushes") >= 12 * SMALL["files"], "a flush goes to each member"


LEVELS = [
    # level, members, layout as the plan says it, as the kernel shows it, data disks
    (0, 4, None, None, 4),
    (1, 2, None, None, None),
    (5, 4, "right-asymmetric", "right-asymmetric", 3),
    (6, 5, None, "left-symmetric", 3),
    (10, 4, None, "near2", 2),
    (10, 4, "far2", "far2", 4),
]


@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
@pytest.mark.parametrize(
    ("level", "count", "layout", "shown", "data"), LEVELS, ids=[f"{row[0]}-{row[3]}" for row in LEVELS]
)
def test_a_level_stands_as_asked_and_mkfs_finds_what_the_kernel_announces(
    bench: Bench,
    filesystem: str,
    level: int,
    count: int,
    layout: str | None,
    shown: str | None,
    data: int | None,
) -> None:
    array: dict[str, Any] = {"level": level, **CLEAN}
    array |= {"chunk": CHUNK} if data else {}
    array |= {"layout": layout} if layout else {}
    # A bitmap where there is something to keep track of, on one of the two.
    whole = filesystem == "ext4"
    bitmap = "internal" if level and whole else "none"
    load = [{"mount": {}}, tree("create", sync="file"), {"unmount": {}}, {"check": {}}]
    phases: Phases = [{"mkfs": {}}, *(load if whole else [])]
    trial = bench.run(spec(filesystem, phases, members(count), array={**array, "bitmap": bitmap})).ok()
    facts = trial.built("array")
    assert (facts["level"], facts["members"], facts["layout"]) == (f"raid{level}", count, shown)
    assert (facts.get("chunk"), facts["resync"]) == (CHUNK if data else None, "assume_clean")
    assert facts.get("bitmap", "none").startswith("none" if bitmap == "none" else ("+", "-"))
    assert facts["data_disks"] == data and facts.get("degraded", 0) == 0
    superblock = trial.built("file_system")
    if data:
        assert facts["optimal_io_size"] // facts["minimum_io_size"] == data
        assert aligned(superblock, CHUNK, data) and superblock["aligned"], superblock
    if not whole:
        return
    create = trial.phase("create")
    assert len(create["leaves"]) == count and create["top"]["flushes"] == 0
    assert all(leaf["flushes"] > 0 for leaf in create["leaves"]), "only the members show flushes"
    assert "resyncing" not in trial.doubts("create")


def test_parity_is_waited_for_unless_told_otherwise(bench: Bench) -> None:
    phases: Phases = [{"mkfs": {}}, {"mount": {}}, tree("create")]
    array = {"level": 10, "chunk": CHUNK, "resync": "wait"}
    trial = bench.run(spec("ext4", phases, members(4), array=array)).ok()
    facts = trial.built("array")
    assert facts["resync"] == "wait" and facts["resync_seconds"] > 0 and facts["sync_action"] == "idle"
    assert "resyncing" not in trial.doubts("create")


@pytest.mark.parametrize("used", ["first", "second"])
def test_a_volume_off_the_stripe_reads_before_it_writes_and_an_aligned_one_does_not(
    bench: Bench, used: str
) -> None:
    # 383 extents of 4 MiB are 128 KiB more than whole stripes of 192 KiB.
    volumes = [{"name": "first", "size": 383 * 4 * MIB}, {"name": "second"}]
    phases: Phases = [
        {"mkfs": {}}, {"mount": {}}, stream("write", 8 * STRIPE), stream("rewrite", STRIPE, direct=True),
    ]  # fmt: skip
    on = spec("xfs", phases, members(4), array=RAID5, lvm={"volumes": volumes, "use": used})
    trial = bench.run(on).ok()
    volume, superblock = trial.built("lvm"), trial.built("file_system")
    assert aligned(superblock, CHUNK, 3), "mkfs sees the array through both volumes"
    read, written = (trial.per_byte("rewrite", f"{what}_bytes") for what in ("read", "write"))
    if used == "first":
        assert (volume["off_stripe"], superblock["aligned"]) == (0, True)
        # A stripe in part, here or there, is the file system's own: its log and inodes.
        assert read < 0.02 and written == pytest.approx(4 / 3, rel=0.03), "data and parity, nothing else"
    else:
        assert (volume["off_stripe"], superblock["aligned"]) == (128 * KIB, False)
        assert read > 0.2 and written > 1.5


@pytest.mark.parametrize("geometry", ["none", "computed"])
def test_geometry_is_forced_off_or_given_as_computed(bench: Bench, geometry: str) -> None:
    for filesystem in ("ext4", "xfs"):
        fs = {"type": filesystem, "geometry": geometry}
        trial = bench.run(spec(fs, [{"mkfs": {}}], members(4), array=RAID5)).ok()
        superblock = trial.built("file_system")
        chunk, disks = (CHUNK, 3) if geometry == "computed" else (0, 0)
        assert aligned(superblock, chunk, disks) and superblock["aligned"] is (geometry == "computed")


def test_members_fail_come_back_and_are_rebuilt(bench: Bench) -> None:
    phases: Phases = [
        {"mkfs": {}},
        {"mount": {}},
        stream("write", MIB),
        {"fail": {"members": [1]}},
        stream("read", MIB, name="degraded"),
        {"name": "background", "add": {"members": [1], "wait": False}},
        tree("create", sync="file"),
        {"resync": {}},
        {"name": "again", "fail": {"members": [2]}},
        {"add": {"members": [2]}},
        {"remount": {"cold": True}},
        stream("read", MIB, name="whole"),
        {"unmount": {}},
        {"check": {}},
    ]
    trial = bench.run(spec("ext4", phases, members(4), array={**RAID5, "bitmap": "internal"})).ok()
    assert trial.phase("fail")["facts"]["degraded"] == 1
    assert "resyncing" not in trial.doubts("create"), "the plan asked for it"
    assert trial.phase("resync")["facts"]["degraded"] == 0
    assert trial.phase("again")["facts"]["degraded"] == 1
    assert trial.phase("add")["facts"]["degraded"] == 0 and trial.phase("add")["facts"]["resync_seconds"] >= 0
    assert trial.leaves("whole", "read_bytes") >= LARGE


def test_a_rebuild_during_a_phase_is_told(bench: Bench) -> None:
    phases: Phases = [
        {"mkfs": {}},
        {"mount": {}},
        {"fail": {"members": [0]}},
        {"add": {"members": [0], "wait": False}},
        tree("create"),
    ]
    trial = bench.run(spec("ext4", phases, members(4), array=RAID5)).ok()
    assert trial.phase("create")["facts"]["array_at_work"]
    assert "resyncing" not in trial.doubts("create"), "the plan asked for it"


@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
def test_an_array_grows_and_says_what_the_file_system_was_told(bench: Bench, filesystem: str) -> None:
    phases: Phases = [
        {"mkfs": {}}, {"mount": {}}, tree("create"), {"grow": {"members": 4}},
        tree("create", "more", "after"), {"unmount": {}}, {"check": {}},
    ]  # fmt: skip
    small = sparse(384 * MIB, 4)
    array = {**RAID5, "spares": 1}
    fs = {"type": filesystem, "geometry": "computed"}
    trial = bench.run(spec(fs, phases, small, array=array)).ok()
    facts = trial.phase("grow")["facts"]
    assert (facts["members"], facts["data_disks"]) == (4, 3)
    assert facts["size"] == pytest.approx(facts["size_before"] * 3 / 2, rel=0.01)
    assert facts["file_system_bytes"] > facts["file_system_bytes_before"] * 1.4
    if filesystem == "ext4":
        assert facts["told"] == "stripe=48"
    else:
        assert "ignores it" in facts["not_told"] and "told" not in facts
        assert facts["superblock"]["swidth"] == 2 * CHUNK // 512, "as it was made"


def test_a_volume_is_striped_without_an_array(bench: Bench) -> None:
    volume = {"name": "wide", "stripes": 3, "stripe_size": 128 * KIB}
    fs = {"type": "xfs", "geometry": "computed"}
    phases: Phases = [{"mkfs": {}}, {"mount": {}}, stream("write", 384 * KIB), {"unmount": {}}, {"check": {}}]
    trial = bench.run(spec(fs, phases, members(3), lvm={"volumes": [volume]})).ok()
    assert aligned(trial.built("file_system"), 128 * KIB, 3)
    assert len(trial.built("lvm")["volumes"]["wide"]["segments"]) == 1
    shares = [leaf["write_bytes"] for leaf in trial.phase("write")["leaves"]]
    assert len(shares) == 3 and min(shares) > LARGE / 4, "each takes its turn"


IMPOSSIBLE: list[tuple[str, int, dict[str, Any], tuple[str, ...]]] = [
    ("three members", 3, {"array": {**RAID5, "level": 6}}, ("RAID 6", "4 members")),
    ("odd chunk", 4, {"array": {"level": 5, "chunk": 3000}}, ("chunk",)),
    ("a mirror's chunk", 2, {"array": {"level": 1, "chunk": CHUNK}}, ("no chunks",)),
    ("only spares", 4, {"array": {**RAID5, "spares": 3}}, ("leave no array",)),
    ("unknown layout", 4, {"array": {**RAID5, "layout": "near2"}}, ("near2",)),
    ("bitmap of level 0", 4, {"array": {"level": 0, "chunk": CHUNK, "bitmap": "internal"}}, ("bitmap",)),
    ("unknown volume", 4, {"array": RAID5, "lvm": {"volumes": [{"name": "a"}], "use": "b"}}, ("`b`", "a")),
    ("too many stripes", 2, {"lvm": {"volumes": [{"name": "a", "stripes": 3}]}}, ("3 stripes",)),
    ("odd extent", 4, {"array": RAID5, "lvm": {"extent": 1000}}, ("extent",)),
]


def answers(rig: Rig, specs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The `end` of each trial as the agent itself says it: a session ends with the first refusal, as a
    campaign does, and each would have to boot anew."""
    ends = []
    with subprocess.Popen(rig.argv("run"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdin and agent.stdout
        for number, wanted in enumerate(specs):
            request = {"trial": str(number), "seed": 1, "spec": wanted}
            agent.stdin.write(json.dumps({"trial": request}) + "\n")
            agent.stdin.flush()
            events: list[dict[str, Any]] = []
            while not events or events[-1]["event"] != "end":
                events.append(json.loads(agent.stdout.readline()))
            assert not [e for e in events if e["event"] == "phase_end"], "nothing was begun"
            ends.append(events[-1])
        agent.stdin.close()
        assert agent.wait() == 0
    return ends


def test_what_cannot_be_is_refused_with_an_advice(bench: Bench, tmp_path: Path) -> None:
    rig = Rig(state=tmp_path / "state", cache=cache_folder(), privileged=False)
    asked = [spec("ext4", [{"mkfs": {}}], members(count), **stack) for _, count, stack, _ in IMPOSSIBLE]
    for (name, _, _, words), end in zip(IMPOSSIBLE, answers(rig, asked), strict=True):
        reason = end["reason"]
        assert end["outcome"] == "failed" and reason.get("advice"), (name, end)
        assert all(word in f"{reason['message']} {reason['advice']}" for word in words), (name, reason)
    assert traces(tmp_path) == []


def test_no_more_members_fail_than_the_level_bears(bench: Bench) -> None:
    phases: Phases = [{"mkfs": {}}, {"fail": {"members": [0, 1]}}]
    trial = bench.run(spec("ext4", phases, members(4), array=RAID5))
    assert trial.outcome == "failed" and "would lose its data" in trial.why
    assert trial.phase("mkfs")["outcome"] == "ok"
