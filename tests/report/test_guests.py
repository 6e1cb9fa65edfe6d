"""What is said of results from emulated CPUs, shared disks, missing barriers and stacks that differ."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fsdyno.report import EXPORTERS, show
from fsdyno.report.build import build
from fsdyno.report.judge import ELSEWHERE, WHY
from fsdyno.report.model import EMULATED, NO_FLUSHES, Report
from fsdyno.report.terminal import text
from fsdyno.store import Store
from tests.report.guests import alignment, began, file_system, work
from tests.store.fixtures import METRICS, leaf, phase_end, record, start, workload


def reported(path: Path, depth: Any = "headline", **narrowed: Any) -> Report:
    with Store.open(path) as store:
        return build(store, depth=depth, **narrowed)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guests") / "busy.sqlite"
    alignment(path, busy=0.9)
    return path


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("guests") / "waiting.sqlite"
    alignment(path, busy=0.2)
    return path


Events = Callable[[int, int], list[dict[str, Any]]]


def campaign(
    path: Path, specs: dict[str, dict[str, Any]], events: Events, *, rounds: int = 6, **more: Any
) -> str:
    """A campaign of cells with these specs; `events` makes those of (cell, round)."""
    cells = [
        {"index": i, "name": name, "label": {"cell": name}, "spec": spec, "what": f"{i}" * 64}
        for i, (name, spec) in enumerate(specs.items())
    ]
    with Store.open(path, create=True) as store:
        given = {"cells": cells, "reference": {"cell": next(iter(specs))}, "rounds": rounds} | more
        made = start(store, list(specs), **given)
        for rnd in range(1, rounds + 1):
            for cell in range(len(specs)):
                record(store, made, cell, rnd, events(cell, rnd))
        store.finish(made, "complete")
        return made


def mkfs(wall: float, **more: Any) -> dict[str, Any]:
    """A mkfs phase that keeps no CPU busy."""
    return phase_end(0, "mkfs", "mkfs", wall, host={**_IDLE}, **more)


_IDLE = {"pages_dirtied": 0, "pages_written": 0, "steal": 0.0, "busy": 0.0}
_NATIVE = [{"event": "trial_start", "place": "native"}]
_DISK = {"stack": {"devices": [{"disk": {"path": "/dev/disk/by-id/x"}}]}}
_FILES = {"stack": {"devices": [{"file": {"size": 1 << 30, "count": 4}}]}}
_FILE = {"stack": {"devices": [{"file": {"size": 1 << 30}}]}}


def test_every_form_marks_emulated_cpus(busy: Path) -> None:
    shown = text(reported(busy), 100)
    assert shown.count("emulated\n") + shown.count("emulated ") > len(reported(busy).rows)
    assert EMULATED[:60] in shown
    html = EXPORTERS["html"].text(reported(busy, "deep"))
    assert "<small>emulated</small>" in html and EMULATED[10:60].strip() in html
    lines = list(csv.DictReader(io.StringIO(EXPORTERS["csv"].text(reported(busy, "all")))))
    assert {line["emulated"] for line in lines} == {"1"}
    data = json.loads(EXPORTERS["json"].text(reported(busy, "all")))
    assert all(cell["emulated"] for cell in data["cells"])
    assert data["machines"][0]["accelerator"] == "tcg"
    assert EMULATED in data["notes"]


def test_native_and_kvm_results_are_not_marked(tmp_path: Path) -> None:
    for name, first in (("native", _NATIVE), ("kvm", began(accelerator="kvm"))):
        path = tmp_path / f"{name}.sqlite"
        campaign(path, {"a": _FILE, "b": _FILE}, lambda cell, rnd, f=first: [*f, mkfs(1.0 + cell)])
        report = reported(path)
        assert "emulated" not in text(report)
        [answer] = report.answers
        assert answer.claimed and answer.unjudged is None


def test_times_of_busy_emulated_cpus_are_shown_and_not_compared(busy: Path) -> None:
    report = reported(busy)
    timed = [entry for entry in report.entries if not entry.column.counted]
    assert timed and all(entry.n == 6 and entry.low is not None for entry in timed)
    assert {entry.unjudged for entry in timed} == {WHY["emulated"]}
    assert all(entry.ratio is None for entry in timed)
    first, *others = [line for line in text(report, 200).splitlines() if "not judged" in line]
    assert first == f"mkfs, write: not judged, {WHY['emulated']}"
    assert others == []
    for form in ("csv", "json", "html"):
        assert "is fastest:" not in EXPORTERS[form].text(reported(busy, EXPORTERS[form].depth))
    lines = csv.DictReader(io.StringIO(EXPORTERS["csv"].text(reported(busy, "all"))))
    judged = {(line["unit"] in ("s", "1/s", "B/s"), line["judged"]) for line in lines}
    assert judged == {(True, "0"), (False, "1")}


def test_counts_answer_where_times_do_not(busy: Path) -> None:
    said = text(reported(busy), 200)
    told = "detect 0, none (not aligned) 0, second volume (not aligned) 0.333; lowest: detect, none, 6 rounds"
    assert f"write, member read per written: {told}" in said
    answers = [answer.text for answer in reported(busy).answers]
    assert "write, member written per written: 1.33 for all, 6 rounds" in answers
    assert "flushes" in said and "2.08" in said  # 4 members with 26 flushes each for 50 fsyncs


def test_a_pilot_tells_counts_and_claims_nothing(tmp_path: Path) -> None:
    alignment(tmp_path / "s.sqlite", rounds=2)
    said = text(reported(tmp_path / "s.sqlite"), 200)
    assert (
        "write, member read per written: detect 0, none (not aligned) 0, second volume (not aligned) 0.333; "
        "a pilot of 2 rounds" in said
    )
    assert not any(answer.claimed for answer in reported(tmp_path / "s.sqlite").answers)


def test_a_phase_that_waits_for_its_devices_is_judged_by_time_too(waiting: Path) -> None:
    report = reported(waiting)
    write = next(a for a in report.answers if a.column.phase == "write" and a.column.headline)
    assert write.unjudged is None and "6 rounds" in write.text
    mkfs = next(a for a in report.answers if a.column.phase == "mkfs")
    assert mkfs.unjudged == WHY["emulated"]  # it kept its CPU busy
    assert "emulated" in text(report)


def test_members_that_share_a_disk_are_judged_alike(tmp_path: Path) -> None:
    def events(cell: int, rnd: int) -> list[dict[str, Any]]:
        return [*_NATIVE, work(busy=0.9, wall=1.0 + cell + 0.01 * rnd)]

    for name, spec, reason in (("files", _FILES, WHY["shared"]), ("file", _FILE, None), ("d", _DISK, None)):
        path = tmp_path / f"{name}.sqlite"
        campaign(path, {"a": spec, "b": spec}, events, where={"kernel": "6.18", "cpus": 2})
        headline = next(answer for answer in reported(path).answers if answer.column.headline)
        assert headline.unjudged == reason


def test_one_phase_that_cannot_be_judged_keeps_all_from_being_ranked(tmp_path: Path) -> None:
    """The fastest of those that may be judged is not the fastest of all."""

    def events(cell: int, rnd: int) -> list[dict[str, Any]]:
        return [*began(), work(busy=0.9 if cell == 2 else 0.1, wall=1.0 + cell + 0.01 * rnd)]

    campaign(tmp_path / "s.sqlite", {"a": _FILE, "b": _FILE, "c": _FILE}, events)
    report = reported(tmp_path / "s.sqlite")
    headline = next(answer for answer in report.answers if answer.column.headline)
    assert headline.unjudged and "(so with c)" in headline.text
    entries = {e.cell: e for e in report.entries if e.column.headline}
    assert entries[1].ratio is not None and entries[1].unjudged is None
    assert entries[2].ratio is None and entries[2].unjudged


def test_different_places_are_named_and_never_compared(tmp_path: Path) -> None:
    def events(cell: int, rnd: int) -> list[dict[str, Any]]:
        kernel = ("6.1.0-56-amd64", "6.6.0-1-amd64")[cell]
        return [*began(accelerator="kvm", kernel=kernel, boot=f"{rnd}"), mkfs(1.0 + cell)]

    campaign(tmp_path / "s.sqlite", {"a": _FILE, "b": _FILE}, events)
    report = reported(tmp_path / "s.sqlite", "all")
    assert all(entry.ratio is None for entry in report.entries)
    assert {answer.unjudged for answer in report.answers} == {ELSEWHERE}
    [problem] = report.problems
    assert problem.endswith("kernel: 6.1.0-56-amd64 and 6.6.0-1-amd64")
    assert problem in " ".join(text(report, 300).split())
    assert problem in EXPORTERS["html"].text(reported(tmp_path / "s.sqlite", "deep"))


@pytest.mark.parametrize("both", [True, False])
def test_a_cell_that_ran_in_two_places_is_compared_with_none(tmp_path: Path, both: bool) -> None:
    """Also not with one that ran in the same two: a number pooled over both belongs to neither."""

    def events(cell: int, rnd: int) -> list[dict[str, Any]]:
        accelerator = "tcg" if rnd % 2 and (both or cell == 1) else "kvm"
        return [*began(accelerator=accelerator), work(busy=0.1, wall=1.0 + cell, read=0.25 * cell, seed=rnd)]

    campaign(tmp_path / "s.sqlite", dict.fromkeys("abc" if both else "ab", _FILES), events)
    report = reported(tmp_path / "s.sqlite")
    assert {column.metric for column in report.columns} >= {"member_read_per_written", "flushes_per_fsync"}
    assert all(entry.ratio is None for entry in report.entries)
    assert {answer.unjudged for answer in report.answers} == {ELSEWHERE}
    named = "a, b, c" if both else "b"
    assert all(answer.text.endswith(f"(so with {named})") for answer in report.answers)
    assert {e.cell for e in report.entries if e.unjudged is None} == (set() if both else {0})
    [problem] = report.problems
    assert "accelerator: " in problem and f"(also within {named})" in problem


def test_a_fresh_boot_each_round_is_the_same_place(busy: Path) -> None:
    assert reported(busy).problems == []
    assert len({place for row in reported(busy).rows for place in row.places}) == 1


def test_a_cell_whose_mkfs_made_different_things_is_a_problem(tmp_path: Path) -> None:
    def events(cell: int, rnd: int) -> list[dict[str, Any]]:
        odd = {"features": ["extent", "64bit", "orphan_file"], "block_size": 1024} if rnd == 4 else {}
        return [*_NATIVE, file_system(uuid=f"{rnd}", **(odd if cell == 1 else {})), mkfs(1.0)]

    campaign(tmp_path / "s.sqlite", {"a": _FILE, "b": _FILE}, events)
    assert reported(tmp_path / "s.sqlite").problems == [
        "b: mkfs made different file systems: block_size: 4096 and 1024; features: orphan_file only in some"
    ]


_SYSTEMS = [
    {"name": "ext4", "flushes": True},
    {"name": "jfs", "flushes": False},
    {"name": "tmpfs", "flushes": False, "needs_device": False},
]


def of(kind: str, **more: Any) -> dict[str, Any]:
    return {"filesystem": {"type": kind, **more}, "stack": {"devices": [{"file": {"size": 1 << 30}}]}}


def barriers(path: Path, specs: dict[str, dict[str, Any]]) -> Report:
    describe = {"metrics": METRICS, "filesystems": _SYSTEMS}
    campaign(path, specs, lambda cell, rnd: [*_NATIVE, mkfs(2.0 - 0.5 * cell)], describe=describe)
    return reported(path)


def test_rows_without_barriers_never_rank_unsaid(tmp_path: Path) -> None:
    through = of("ext4")
    through["stack"]["settings"] = {"write_cache": "write through"}
    specs = {"ext4": of("ext4"), "fast": of("ext4", barrier=False), "queue": through, "jfs": of("jfs")}
    report = barriers(tmp_path / "s.sqlite", specs)
    assert [row.barriers for row in report.rows] == ["", "barriers off", "barriers off", "no flushes"]
    [answer] = report.answers
    assert answer.text.startswith("mkfs: jfs is fastest")
    assert answer.text.endswith(
        "; without barriers: fast (barriers off), queue (barriers off), jfs (no flushes)"
    )
    shown = text(report, 120)
    assert answer.text in " ".join(shown.split())
    assert NO_FLUSHES in shown and "jfs (no flushes)" in shown
    html = EXPORTERS["html"].text(reported(tmp_path / "s.sqlite", "deep"))
    assert "<small>no flushes</small>" in html and "always without barriers" in html


def test_barriers_that_were_turned_off_by_any_way_are_marked(tmp_path: Path) -> None:
    said = ["on", "off", "off", "none", None]

    def events(cell: int, rnd: int) -> list[dict[str, Any]]:
        facts = {"driver": "any"} | ({"barriers": said[cell]} if said[cell] else {})
        mount = {"event": "built", "part": "mount", "facts": facts}
        return [*_NATIVE, mount, mkfs(2.0 - 0.5 * cell)]

    specs = {
        "on": of("ext4"),
        "word": of("ext4", extra_mount=["nobarrier"]),
        "other": of("f2fs"),
        "has none": of("unheard of"),
        "an older agent says nothing": of("ext4", barrier=False),
    }
    campaign(tmp_path / "s.sqlite", specs, events, describe={"metrics": METRICS, "filesystems": _SYSTEMS})
    marks = [row.barriers for row in reported(tmp_path / "s.sqlite").rows]
    assert marks == ["", "barriers off", "barriers off", "no flushes", "barriers off"]


def test_where_another_leads_it_is_said_once_for_all_phases(tmp_path: Path) -> None:
    def events(cell: int, rnd: int) -> list[dict[str, Any]]:
        steps = [phase_end(i, name, "check", 1.0 + cell) for i, name in enumerate(("one", "two"))]
        return [*_NATIVE, *steps]

    describe = {"metrics": METRICS, "filesystems": _SYSTEMS}
    campaign(tmp_path / "s.sqlite", {"ext4": of("ext4"), "jfs": of("jfs")}, events, describe=describe)
    report = reported(tmp_path / "s.sqlite")
    assert all(answer.text.endswith("; without barriers: jfs (no flushes)") for answer in report.answers)
    said = text(report, 120).splitlines()
    assert [line for line in said if "without barriers:" in line] == [
        "ranked without barriers: jfs (no flushes)"
    ]


@pytest.mark.parametrize("specs", [{"a": of("ext4"), "b": of("ext4")}, {"a": of("jfs"), "b": of("jfs")}])
def test_among_equals_nothing_need_be_said(tmp_path: Path, specs: dict[str, dict[str, Any]]) -> None:
    assert "without barriers:" not in barriers(tmp_path / "s.sqlite", specs).answers[0].text


def test_a_row_without_a_disk_has_no_barriers_to_speak_of(tmp_path: Path) -> None:
    report = barriers(tmp_path / "s.sqlite", {"ext4": of("ext4"), "tmpfs": of("tmpfs")})
    assert [row.remark for row in report.rows] == ["", "no disk"]


def test_a_phase_that_does_not_apply_has_its_reason_in_the_table(tmp_path: Path) -> None:
    why = "no checker for it exists"

    def events(cell: int, rnd: int) -> list[dict[str, Any]]:
        none = {"outcome": "not_applicable", "reason": {"message": why}} if cell else {}
        return [*_NATIVE, phase_end(0, "check", "check", 1.0, **none)]

    path = tmp_path / "s.sqlite"
    campaign(path, {"ext4": _FILE, "nilfs2": _FILE}, events)
    shown = text(reported(path))
    [row] = [line for line in shown.splitlines() if line.startswith("nilfs2 ")]
    assert row.split() == ["nilfs2", "n/a"]
    assert f"nilfs2: check not applicable: {why}" in shown
    html = EXPORTERS["html"].text(reported(path, "deep"))
    assert f'n/a<small class="why">{why}</small>' in html
    data = json.loads(EXPORTERS["json"].text(reported(path, "all")))
    assert [(m["phase"], m["cell"], m["reason"]) for m in data["missing"]] == [("check", 1, why)]


def test_alignment_is_a_column_with_its_reasons(busy: Path) -> None:
    report = reported(busy)
    assert [row.aligned for row in report.rows] == [True, False, False]
    shown = text(report, 120)
    rows = [line.split() for line in shown.splitlines()]
    assert ["detect", "yes"] in [row[:2] for row in rows]
    assert ["second", "volume", "no"] in [row[:3] for row in rows]
    assert "second volume: its first extent lies 128 KiB off the stripe" in shown
    assert shown.count("aligned  ") == 1  # once is enough
    html = EXPORTERS["html"].text(reported(busy, "deep"))
    assert "<th>aligned</th>" in html and "its first extent lies 128 KiB off the stripe" in html


def test_where_nothing_says_so_there_is_no_such_column(tmp_path: Path) -> None:
    campaign(tmp_path / "s.sqlite", {"a": _FILE, "b": _FILE}, lambda cell, rnd: [*_NATIVE, mkfs(1.0)])
    assert "aligned" not in text(reported(tmp_path / "s.sqlite"))
    assert "<th>aligned</th>" not in EXPORTERS["html"].text(reported(tmp_path / "s.sqlite", "deep"))


@pytest.mark.parametrize("width", [60, 80, 100, 132])
def test_it_fits_the_terminal(busy: Path, waiting: Path, width: int) -> None:
    for path in (busy, waiting):
        assert max(len(line) for line in text(reported(path), width).splitlines()) <= width


def test_fsyncs_bring_their_flushes_into_the_table(tmp_path: Path) -> None:
    def events(cell: int, rnd: int) -> list[dict[str, Any]]:
        load = workload("tree", {"create": (50, 204800), "fsync": (50, 0)}, 1.0, 0.1, rnd)
        leaves = [leaf(flushes=100 // (cell + 1), writes=60)]
        return [*_NATIVE, phase_end(1, "create", "workload", 1.1, workload=load, leaves=leaves)]

    campaign(tmp_path / "s.sqlite", {"xfs": _FILE, "ext2": _FILE}, events)
    report = reported(tmp_path / "s.sqlite")
    counted = [column.metric for column in report.columns if column.counted]
    assert counted == ["flushes_per_fsync"]  # times are judged here, and one disk has no members
    column = next(column for column in report.columns if column.counted)
    assert [entry.median for _, entry in report.of(column)] == [2, 1]
    [answer] = [answer for answer in report.answers if answer.column is column]
    assert answer.text == "create, flushes per fsync: ext2 1.00, xfs 2.00, 6 rounds"  # neither is better
    assert not answer.claimed
    assert answer.text in text(report)


def test_a_swept_phase_has_its_counts_at_each_point(tmp_path: Path) -> None:
    points = [{"phases.write.threads": n} for n in (1, 2)]

    def events(cell: int, rnd: int) -> list[dict[str, Any]]:
        found = []
        for i, point in enumerate(points):
            event = work(busy=0.9, wall=1.0 + 0.01 * rnd, read=0.25 * cell, seed=rnd)
            found.append(event | {"index": i, "point": point})
        return [*began(), *found]

    campaign(tmp_path / "s.sqlite", {"on": _FILES, "off": _FILES}, events)
    shown = text(reported(tmp_path / "s.sqlite"), 120)
    assert "write: member read per written" in shown
    assert "write, member read per written: on is lowest at all 2 points, 6 rounds" in shown
    assert EXPORTERS["html"].text(reported(tmp_path / "s.sqlite", "deep"))


def test_many_counts_are_the_lowest_and_the_last(tmp_path: Path) -> None:
    def events(cell: int, rnd: int) -> list[dict[str, Any]]:
        return [*began(), work(busy=0.9, read=0.25 * (5 - cell))]

    campaign(tmp_path / "s.sqlite", dict.fromkeys("abcdef", _FILES), events)
    said = text(reported(tmp_path / "s.sqlite"), 200)
    assert "member read per written: f 0, e 0.250, d 0.500, … a 1.25; lowest: f, 6 rounds" in said


def test_one_disk_has_no_members_to_read_from(tmp_path: Path) -> None:
    campaign(tmp_path / "s.sqlite", {"a": _FILE, "b": _FILE}, lambda cell, rnd: [*began(), work(busy=0.9)])
    counted = {column.metric for column in reported(tmp_path / "s.sqlite").columns if column.counted}
    assert counted == {"flushes_per_fsync", "member_written_per_written", "requests_per_operation"}


def test_a_trial_tells_where_it_ran_and_both_hashes(busy: Path) -> None:
    with Store.open(busy) as store:
        trial = store.trials(store.campaign().id)[2]
        told, data = show.text(store, trial.id, width=200), show.data(store, trial.id)
    assert trial.made is not None
    for word in (
        f"what {'2' * 16}, made {trial.made[:16]}, where {trial.where_hash[:16]}",
        "place guest: kernel 6.1.0-56-amd64, CPUs emulated (tcg), 2 CPUs, 1.00 GiB, QEMU 7.2.22",
        EMULATED,
        "chunk = 65536",
        "alignment = its first extent lies 128 KiB off the stripe",
    ):
        assert word in told
    assert data["made"] == trial.made and data["where_hash"] == trial.where_hash
    assert data["where"]["guest"]["accelerator"] == "tcg" and data["trial"]["emulated"] is True


def test_provenance_has_the_machine_the_array_and_what_was_made(busy: Path) -> None:
    html = EXPORTERS["html"].text(reported(busy, "deep"))
    made = reported(busy).rows[0].made[0]
    for word in (
        "guest: kernel 6.1.0-56-amd64, CPUs emulated (tcg)",
        "<dt>chunk</dt><dd>65536</dd>",
        f"made <code>{made}</code>",
    ):
        assert word in html


def test_what_a_phase_tells_is_not_told_twice() -> None:
    phase = phase_end(1, "mkfs", "mkfs", 1.0, facts={"block_size": 4096})
    began = {"event": "phase_start", "index": 1}
    part = file_system(block_size=4096, aligned=True)
    told = show.told_once([began, part, phase])
    assert "block_size" not in told[1]["facts"] and told[1]["facts"]["aligned"] is True
    assert show.told_once([part, began, phase])[0] == part  # made by no phase: told whole
