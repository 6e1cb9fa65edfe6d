"""From events to samples: the definitions of the metrics, by example."""

from __future__ import annotations

from typing import Any

import pytest

from fsdyno.rig import Rig
from fsdyno.store.samples import derive, phase_values
from tests.store.fixtures import histogram, leaf, phase_end, workload


def create(**more: Any) -> dict[str, Any]:
    """2 s in which 1000 files of 4 KiB are made in 10 directories; the last 0.5 s is the sync.

    The phase takes 0.25 s more, for starting threads."""
    work = workload("tree", {"create": (1000, 4096000), "mkdir": (10, 0), "fsync": (7, 0)}, 1.5, 0.5, 1)
    return phase_end(3, "create", "workload", 2.25, workload=work, **more)


def test_rates_are_total_work_over_total_time_and_the_final_sync_counts() -> None:
    values = phase_values(create())
    assert values["wall_seconds"] == 2.25
    assert values["operations_per_second"] == 500.0
    assert values["bytes_per_second"] == 2048000.0
    assert values["sync_seconds"] == 0.5


def test_directories_and_forced_writes_are_not_what_the_workload_is_about() -> None:
    event = create()
    event["workload"]["operations"][1]["count"] = 10**6
    event["workload"]["operations"][2]["count"] = 10**6
    assert phase_values(event)["operations_per_second"] == 500.0


def test_reads_and_writes_of_a_mix_count_both() -> None:
    work = workload("random", {"read": (600, 600 * 4096), "write": (400, 400 * 4096)}, 1.0, 0.0, 1)
    assert (
        phase_values(phase_end(0, "mix", "workload", 1.0, workload=work))["operations_per_second"] == 1000.0
    )


def test_cpu_is_user_and_system() -> None:
    event = phase_end(0, "mkfs", "mkfs", 1.0)
    event["cpu"] |= {"user": 0.25, "system": 0.5}
    assert phase_values(event)["cpu_seconds"] == 0.75


def test_counters_are_summed_over_leaves() -> None:
    leaves = [
        leaf(writes=3, write_bytes=12288, flushes=1),
        leaf(writes=4, write_bytes=16384, flushes=2, discards=5),
    ]
    values = phase_values(phase_end(0, "mkfs", "mkfs", 1.0, leaves=leaves))
    assert (values["writes"], values["write_bytes"], values["flushes"], values["discards"]) == (
        7,
        28672,
        3,
        5,
    )


def test_without_leaves_nothing_was_counted_which_is_not_zero() -> None:
    assert "writes" not in phase_values(phase_end(0, "mount", "mount", 1.0, leaves=[]))


def test_a_phase_that_moves_no_bytes_has_no_byte_rate() -> None:
    work = workload("tree", {"delete": (1000, 0)}, 1.0, 0.1, 1)
    assert "bytes_per_second" not in phase_values(phase_end(0, "delete", "workload", 1.1, workload=work))


@pytest.mark.parametrize(
    ("operations", "known"),
    [
        (19, set()),
        (20, {"latency_p50"}),
        (999, {"latency_p50"}),
        (1000, {"latency_p50", "latency_p99"}),
        (10_000, {"latency_p50", "latency_p99", "latency_p999"}),
    ],
)
def test_a_percentile_needs_enough_operations(operations: int, known: set[str]) -> None:
    event = create()
    event["workload"]["operations"] = [
        {"op": "create", "count": operations, "bytes": 0, "latency": histogram([1000] * operations)}
    ]
    values = phase_values(event)
    assert {name for name in values if name.startswith("latency")} == known
    for name in known:
        assert values[name] == pytest.approx(1e-6, rel=1 / 128)


@pytest.mark.parametrize("outcome", ["failed", "timed_out", "cancelled", "not_applicable", "unsupported"])
def test_only_what_ended_ok_gives_samples(outcome: str) -> None:
    reason = {"message": "no"}
    derived = derive([phase_end(0, "mkfs", "mkfs", 1.0, outcome=outcome, reason=reason)])
    assert derived.samples == []
    assert [(note.outcome, note.reason) for note in derived.notes] == [(outcome, reason)]


def test_points_have_one_spelling() -> None:
    a = derive([create(point={"b": 1, "a": 2})]).samples[0]
    b = derive([create(point={"a": 2, "b": 1})]).samples[0]
    assert a.point == b.point == '{"a":2,"b":1}'
    assert derive([create()]).samples[0].point == "{}"


def test_the_driver_is_that_of_the_last_mount_not_of_the_device() -> None:
    events = [
        {"event": "built", "part": "device", "facts": {"driver": "loop"}},
        phase_end(1, "mount", "mount", 0.1, facts={"driver": "ext4"}),
        create(),
    ]
    assert derive(events).driver == "ext4"
    assert derive(events[:1]).driver is None


def test_requests_are_reads_and_writes_of_all_members() -> None:
    leaves = [leaf(reads=3, writes=40), leaf(reads=7, writes=50)]
    values = phase_values(create(leaves=leaves))
    assert values["requests"] == 100
    assert values["requests_per_operation"] == 0.1  # 1000 files; directories and fsyncs are not the work


def test_what_members_move_is_held_against_what_the_workload_wrote() -> None:
    """4 members, 3 of them data: whole stripes are written with a quarter of parity and nothing is read."""
    size = 96 << 20
    work = workload("stream", {"write": (512, size)}, 1.0, 0.1, 1)
    whole = [leaf(writes=100, write_bytes=size // 3) for _ in range(4)]
    values = phase_values(phase_end(0, "write", "workload", 1.1, workload=work, leaves=whole))
    assert values["member_written_per_written"] == pytest.approx(4 / 3)
    assert values["member_read_per_written"] == 0
    off = [leaf(writes=100, write_bytes=size * 5 // 12, read_bytes=size // 12) for _ in range(4)]
    values = phase_values(phase_end(0, "write", "workload", 1.1, workload=work, leaves=off))
    assert values["member_written_per_written"] == pytest.approx(5 / 3)
    assert values["member_read_per_written"] == pytest.approx(1 / 3)


def test_files_that_are_created_are_written() -> None:
    values = phase_values(create(leaves=[leaf(write_bytes=2 * 4096000, read_bytes=4096)]))
    assert values["member_written_per_written"] == 2
    assert values["member_read_per_written"] == 0.001


@pytest.mark.parametrize(
    ("operations", "absent"),
    [
        ({"read": (10, 40960)}, {"member_read_per_written", "member_written_per_written"}),
        ({"delete": (10, 0)}, {"member_read_per_written", "member_written_per_written"}),
        ({"read": (5, 20480), "write": (5, 20480)}, {"member_read_per_written"}),
        ({"mkdir": (5, 0)}, {"requests_per_operation", "member_read_per_written"}),
    ],
)
def test_a_ratio_needs_what_it_is_held_against(
    operations: dict[str, tuple[int, int]], absent: set[str]
) -> None:
    """What a mix reads by itself is no cost of writing."""
    work = workload("random", operations, 1.0, 0.0, 1)
    values = phase_values(phase_end(0, "w", "workload", 1.0, workload=work, leaves=[leaf(reads=1)]))
    assert absent.isdisjoint(values)


def test_flushes_of_all_members_are_held_against_fsyncs() -> None:
    values = phase_values(create(leaves=[leaf(flushes=7), leaf(flushes=14)]))  # 7 fsyncs
    assert values["flushes_per_fsync"] == 3
    event = create()
    event["workload"]["operations"] = event["workload"]["operations"][:2]
    assert "flushes_per_fsync" not in phase_values(event)


def test_without_leaves_nothing_is_held_against_anything() -> None:
    assert not {name for name in phase_values(create(leaves=[])) if "_per_" in name and "second" not in name}


@pytest.mark.parametrize(
    ("threads", "cpus", "share"),
    [(2, 2, 0.5), (1, 2, 1.0), (8, 2, 0.5), (2, 64, 0.5), (2, 1, 1.0)],
)
def test_the_busy_share_is_of_what_the_phase_could_use(threads: int, cpus: int, share: float) -> None:
    """One thread that computes all the time keeps one CPU busy, however many stand idle beside it."""
    event = create()
    event["workload"]["threads"] = threads
    event["host"]["busy"] = event["wall"]
    assert phase_values(event, cpus)["busy_share"] == share


def test_a_tool_is_one_thread_and_unknown_cpus_give_no_share() -> None:
    event = phase_end(0, "mkfs", "mkfs", 2.0)
    event["host"]["busy"] = 1.0
    assert phase_values(event, 4)["busy_share"] == 0.5
    assert "busy_share" not in phase_values(event)


def test_the_agents_table_names_exactly_the_metrics_that_are_derived() -> None:
    event = create(leaves=[leaf(reads=1)])
    event["workload"]["operations"][0]["latency"] = histogram([1000] * 20_000)
    table = {metric["name"] for metric in Rig(privileged=False).describe()["metrics"]}
    assert table == set(phase_values(event, cpus=2))
