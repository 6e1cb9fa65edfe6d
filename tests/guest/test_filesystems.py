"""Every row of the agent's table of file systems, measured in a guest: made, loaded, checked, and its
barriers, geometry and features proved. A row that is added is tested without touching this file.
"""

from __future__ import annotations

from typing import Any

import pytest

from fsdyno.errors import UserError
from fsdyno.rig import Rig
from fsdyno.rig.binary import find_agent
from tests.guest.bench import GIB, SMALL, Bench, sparse, spec, tree

Row = dict[str, Any]

DEVICES = sparse(GIB)
CHUNK = 64 << 10
DATA_DISKS = 3
UNITS = {("stride", "stripe_width"): "block_size", ("sunit", "swidth"): 512}
"""Facts of superblocks that hold a geometry, and what they count in."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "row" in metafunc.fixturenames:
        try:
            rows = Rig([str(find_agent())], privileged=False).describe()["filesystems"]
            metafunc.parametrize("row", rows, ids=[row["name"] for row in rows])
        except UserError:
            metafunc.parametrize("row", [{}], ids=["any"])  # the agent is missing: `bench` says so


def offers(row: Row, option: str) -> bool:
    return any(known["name"] == option for known in row["options"])


def geometry(facts: dict[str, Any]) -> list[tuple[int, int]]:
    """Chunk and data disks of each geometry that a superblock knows, bytes."""
    found = []
    for (chunk, stripe), unit in UNITS.items():
        if chunk in facts:
            size = facts[unit] if isinstance(unit, str) else unit
            found.append((facts[chunk] * size, facts[stripe] // facts[chunk] if facts[chunk] else 0))
    return found


def test_a_file_system_lives_through_a_trial(bench: Bench, row: Row) -> None:
    phases: list[dict[str, Any]] = [
        {"mkfs": {}},
        {"mount": {}},
        tree("create", sync="file"),
        {"remount": {"cold": True}},
        tree("read"),
        tree("delete"),
        {"unmount": {}},
        {"check": {}},
    ]
    trial = bench.run(spec(row["name"], phases, DEVICES)).ok()
    for phase in ("create", "read", "delete"):
        assert trial.operations(phase, phase) == SMALL["files"]
    assert trial.operations("create", "fsync") == SMALL["files"]
    check = trial.phase("check")
    if row["checks"]:
        [tool] = check["tools"]
        assert (check["outcome"], tool["exit"]) == ("ok", 0) and tool["meaning"] and tool["version"]
    else:
        assert check["outcome"] == "not_applicable" and check["reason"]["message"]
    if not row["needs_device"]:
        return
    assert trial.leaves("create", "write_bytes") >= SMALL["files"] * SMALL["size"]
    if row["flushes"]:
        assert trial.leaves("create", "flushes") >= SMALL["files"], "an fsync that is no barrier"
    else:
        assert trial.leaves("create", "flushes") == 0
    assert "not_cold" not in trial.doubts("read") and trial.leaves("read", "read_bytes") > 0
    superblock = trial.built("file_system")
    assert superblock["size"] <= GIB
    assert isinstance(superblock["features"], list), "what resulted, not what was asked for"
    assert all(found == (0, 0) for found in geometry(superblock)), "there is no array below"
    assert trial.phase("mount")["facts"]["driver"]


def test_barriers_off_and_a_declared_geometry_are_seen_where_they_are_offered(bench: Bench, row: Row) -> None:
    options = {}
    if row["barrier_off"]:
        options["barrier"] = False
    if offers(row, "geometry"):
        options["geometry"] = "declared"
    if not options:
        pytest.skip(f"{row['name']} offers neither")
    phases: list[dict[str, Any]] = [{"mkfs": {}}, {"mount": {}}, tree("create", sync="file")]
    hardware = {"level": 5, "members": DATA_DISKS + 1, "chunk": CHUNK}
    wanted = spec({"type": row["name"], **options}, phases, DEVICES, geometry=hardware)
    trial = bench.run(wanted).ok()
    assert trial.operations("create", "fsync") == SMALL["files"]
    if row["barrier_off"]:
        assert trial.leaves("create", "flushes") == 0
        assert trial.leaves("create", "write_bytes") >= SMALL["files"] * SMALL["size"], "fsync still writes"
    if offers(row, "geometry"):
        assert geometry(trial.built("file_system")) == [(CHUNK, DATA_DISKS)]


def test_what_no_longer_exists_is_unsupported_with_the_alternative(bench: Bench) -> None:
    phases: list[dict[str, Any]] = [{"mkfs": {}}]
    trial = bench.run(spec({"type": "xfs", "lazy_count": False}, phases, DEVICES))
    assert trial.outcome == "unsupported"
    assert trial.reply.reason and trial.reply.reason["advice"], trial.why


def test_one_guest_served_them_all(bench: Bench) -> None:
    phases: list[dict[str, Any]] = [{"mkfs": {}}]
    first, second = (bench.run(spec("ext4", phases, DEVICES)).ok() for _ in range(2))
    assert first.boot == second.boot
    assert second.built("machine")["fresh"] is False
    later = bench.run(spec("ext4", phases, DEVICES), round=1).ok()
    assert later.boot != first.boot and later.built("machine")["fresh"] is True
