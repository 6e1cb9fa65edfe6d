"""What a plan needs: space, data, time; and how it is shown."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console

from fsdyno.plan import Plan, estimate
from fsdyno.plan.effects import follow
from fsdyno.plan.estimate import BOOT_SECONDS
from fsdyno.plan.show import show

Read = Callable[[str], Plan]
TEXT = """
question = "Which?"
[trial]
stack.devices = [{ file = { size = "1GiB" } }]
filesystem = "ext4"
datasets.a = { files = 100, size = "1M" }
datasets.b = { files = 50, size = "1M" }
phases = [
    { mkfs = {} },
    { mount = {} },
    { name = "write a", workload.tree = { op = "create", dataset = "a" } },
    { name = "delete a", workload.tree = { op = "delete", dataset = "a" } },
    { name = "write b", workload.stream = { op = "write", dataset = "b" } },
    { name = "look", workload.random = { op = "read", dataset = "b", operations = 1000 } },
    { unmount = {} },
]
"""
GIB = 1 << 30


def data(plan: Plan) -> int:
    """The most bytes of file data at one time."""
    return follow(plan.cells[0].spec).peak


def test_data_is_what_stands_at_one_time(plan_of: Read) -> None:
    assert data(plan_of(TEXT)) == 100 << 20
    assert data(plan_of(TEXT.replace('op = "delete"', 'op = "stat"'))) == 150 << 20


def test_a_new_file_system_is_empty(plan_of: Read) -> None:
    anew = '{ name = "u", unmount = {} }, { name = "anew", mkfs = {} }, { name = "m", mount = {} }'
    text = TEXT.replace('{ name = "delete a", workload.tree = { op = "delete", dataset = "a" } }', anew)
    assert data(plan_of(text)) == 100 << 20


def test_written_files_are_kept_for_the_whole_campaign_and_shared_by_cells(plan_of: Read) -> None:
    assert plan_of(TEXT + '[matrix]\nfilesystem = ["ext4", "xfs"]\n').space() == GIB
    sizes = '[matrix]\n"stack.devices.0.file.size" = ["1GiB", "2GiB"]\n'
    assert plan_of(TEXT + sizes).space() == 3 * GIB


def test_a_file_system_without_a_disk_needs_no_space(plan_of: Read) -> None:
    assert plan_of(TEXT.replace('"ext4"', '"tmpfs"')).space() == 0
    assert plan_of(TEXT + '[matrix]\nfilesystem = ["ext4", "tmpfs"]\n').space() == GIB


def test_a_sparse_file_needs_about_its_data_and_never_more_than_its_size(plan_of: Read) -> None:
    sparse = TEXT.replace('size = "1GiB"', 'size = "72TiB", backing = "sparse"')
    assert 100 << 20 < plan_of(sparse).space() < GIB
    small = sparse.replace("72TiB", "128M")
    assert plan_of(small).space() == 128 << 20


def test_the_estimate_is_rough_and_says_so(plan_of: Read) -> None:
    plan = plan_of(TEXT + '[matrix]\nfilesystem = ["ext4", "xfs"]\n')
    rough = estimate(plan)
    assert rough.how.startswith("rough")
    assert rough.total == rough.setup + 6 * rough.seconds_per_round


def test_more_work_takes_longer(plan_of: Read) -> None:
    base = estimate(plan_of(TEXT)).seconds_per_round
    assert estimate(plan_of(TEXT.replace("files = 100", "files = 200"))).seconds_per_round > base
    assert estimate(plan_of(TEXT.replace("operations = 1000", "operations = 9000"))).seconds_per_round > base
    timed = estimate(plan_of(TEXT.replace("operations = 1000", 'runtime = "60s"'))).seconds_per_round
    assert 59 < timed - base < 61
    swept = estimate(
        plan_of(TEXT + '[sweep]\n"phases.look.operations" = [1000, 1000000]\n')
    ).seconds_per_round
    assert swept > base + 10


def test_bytes_written_count_backing_files_and_every_trial(plan_of: Read) -> None:
    assert estimate(plan_of(TEXT)).bytes_written == GIB + 6 * (150 << 20)


def shown(plan: Plan) -> str:
    out = io.StringIO()
    Console(file=out, width=120, color_system=None).print(show(plan))
    return out.getvalue()


def test_show_tells_everything_before_anything_is_touched(plan_of: Read) -> None:
    text = TEXT + '[matrix]\nfilesystem = ["ext4", "xfs"]\n[sweep]\n"phases.look.operations" = [1000, 5000]\n'
    screen = shown(plan_of(text + '[reference]\nfilesystem = "ext4"\n'))
    for word in (
        "Which?",
        "12: 6 rounds × 2 cells × 2 points",
        "1 GiB",
        "rough",
        "filesystem = ext4",
        "write a",
    ):
        assert word in screen
    assert "tree create dataset=a\n" in "\n".join(line.rstrip() for line in screen.splitlines()) + "\n"
    assert screen.count("once per point (2)") == 1


def test_show_warns_of_too_few_rounds(plan_of: Read) -> None:
    plan = plan_of(TEXT.replace("[trial]", "rounds = 3\n[trial]", 1))
    assert "pilot" in shown(plan)
    assert "pilot" not in shown(plan_of(TEXT))


def test_square_brackets_in_a_plan_are_text(plan_of: Read) -> None:
    plan = plan_of(TEXT.replace('"Which?"', '"Is [bold] bold?"'))
    assert "Is [bold] bold?" in shown(plan)


# ---- arrays and guests ------------------------------------------------------------------------------


def test_counted_devices_have_a_file_each(plan_of: Read) -> None:
    array = 'stack.array = { level = 5, chunk = "64K" }'
    four = TEXT.replace('size = "1GiB" } }]', 'size = "1GiB", count = 4 } }]\n' + array)
    assert plan_of(four).space() == 4 * GIB
    screen = shown(plan_of(four))
    assert "4 × file size=1 GiB > array level=5" in screen


def test_an_array_that_computes_its_parity_fills_sparse_files(plan_of: Read) -> None:
    array = 'stack.array = { level = 5, chunk = "64K", resync = "wait" }'
    devices = 'size = "4GiB", count = 3, backing = "sparse" } }]\n' + array
    filled = TEXT.replace('size = "1GiB" } }]', devices)
    assert plan_of(filled).space() == 12 * GIB
    assert plan_of(filled.replace('"wait"', '"assume_clean"')).space() < 2 * GIB


def test_a_guest_costs_its_boot_and_slower_trials(plan_of: Read) -> None:
    base = estimate(plan_of(TEXT)).seconds_per_round
    guest = TEXT.replace("[trial]\n", "[trial]\nmachine = {}\n", 1)
    alone = estimate(plan_of(guest)).seconds_per_round
    assert alone > base + BOOT_SECONDS
    shared = estimate(plan_of(guest + '[matrix]\nfilesystem = ["ext4", "xfs"]\n')).seconds_per_round
    assert shared < 2 * alone - BOOT_SECONDS / 2, "one boot serves a round"
    two = estimate(plan_of(guest + '[matrix]\n"machine.cpus" = [1, 2]\n')).seconds_per_round
    assert two > shared
