"""Plans of several axes: rows stay apart in every table, are compared within equal other axes, and the answer
comes in few sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fsdyno.report import EXPORTERS
from fsdyno.report.build import build
from fsdyno.report.judge import WHY
from fsdyno.report.model import Report
from fsdyno.report.summary import sentences
from fsdyno.report.tables import UNJUDGED, panels
from fsdyno.report.terminal import text
from fsdyno.store import Store
from tests.report.guests import FILES, began, file_system, work
from tests.store.fixtures import leaf, phase_end, record, start, workload

OFF = "second volume, extents of 128 KiB"
ON = ("array", "array, told nothing", "second volume", OFF)
SYSTEMS = ("ext4", "xfs")
LEVELS = ("RAID 5 of 4", "RAID 6 of 5")
GROUPS = [f"{fs} · {level}" for fs in SYSTEMS for level in LEVELS]
_STACK = {"stack": {"devices": [{"file": {"size": 1 << 30, "count": FILES}}]}, "phases": []}

Events = Callable[[dict[str, str], int], list[dict[str, Any]]]


def campaign(
    path: Path,
    axes: dict[str, tuple[str, ...]],
    events: Events,
    *,
    reference: dict[str, str],
    rounds: int = 6,
    spec: dict[str, Any] | None = None,
) -> Report:
    """A campaign of all cells of these axes; `events` makes those of (label, round)."""
    labels: list[dict[str, str]] = [{}]
    for axis, values in axes.items():
        labels = [{**label, axis: value} for label in labels for value in values]
    cells = [
        {
            "index": i,
            "name": " · ".join(label.values()),
            "label": label,
            "spec": spec or _STACK,
            "what": f"{i}",
        }
        for i, label in enumerate(labels)
    ]
    names = [str(cell["name"]) for cell in cells]
    with Store.open(path, create=True) as store:
        made = start(store, names, cells=cells, reference=reference, rounds=rounds)
        for rnd in range(1, rounds + 1):
            for i, label in enumerate(labels):
                record(store, made, i, rnd, events(label, rnd))
        store.finish(made, "complete")
        return build(store, made, depth="deep")


def alignment(path: Path, *, rounds: int = 6) -> Report:
    """Two file systems on two arrays; of the four stacks on each one is off the stripe, and reads."""

    def events(label: dict[str, str], rnd: int) -> list[dict[str, Any]]:
        off, group = label["on"] == OFF, f"{label['filesystem']} · {label['raid']}"
        metadata = 0.002 + 0.001 * GROUPS.index(group)
        said = "the volume begins 128 KiB into a stripe" if off else "the volume begins with a stripe"
        return [
            *began(boot=f"b-{rnd}"),
            file_system(aligned=not off, alignment=said),
            phase_end(0, "mkfs", "mkfs", 0.5),
            {**work(0.9, 2.0, 0.001 * (1 + ON.index(label["on"])), rnd), "name": "write", "index": 1},
            {**work(0.9, 2.0, 0.5 if off else metadata, rnd), "name": "rewrite", "index": 2},
        ]

    axes = {"filesystem": SYSTEMS, "raid": LEVELS, "on": ON}
    return campaign(path, axes, events, reference={"on": "array"}, rounds=rounds)


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return alignment(tmp_path_factory.mktemp("groups") / "s.sqlite")


def joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_name_is_cut_and_each_row_can_be_told_from_all_others(stacks: Report, width: int) -> None:
    shown = text(stacks, width)
    lines = shown.splitlines()
    assert max(len(line) for line in lines) <= width
    table = lines[: next(i for i, line in enumerate(lines) if line.startswith("Counts"))]
    at = [table.index(group) for group in GROUPS]
    assert at == sorted(at)
    name = next(line.index("aligned") for line in table if " aligned " in f"{line} ")
    for first, last in zip(at, [*at[1:], len(table)], strict=True):
        names = joined([line[:name] for line in table[first + 1 : last]])
        assert [name for name in ON if name not in names] == []
    assert "…" not in "".join(table)


def test_short_names_need_no_headings(tmp_path: Path) -> None:
    axes = {"filesystem": SYSTEMS, "on": ("plain", "lvm")}

    def events(label: dict[str, str], rnd: int) -> list[dict[str, Any]]:
        return [phase_end(0, "mkfs", "mkfs", 1.0 + rnd / 10)]

    shown = text(campaign(tmp_path / "s.sqlite", axes, events, reference={"on": "plain"}), 80)
    assert all(f"\n{fs} · {on} " in shown for fs in SYSTEMS for on in ("plain", "lvm"))
    assert "\next4\n" not in shown


def test_the_answer_compares_within_equal_other_axes_one_sentence_for_each(stacks: Report) -> None:
    said = [sentence for sentence, _ in sentences(stacks)]
    assert len(said) <= 8
    for sentence, group in zip(said, GROUPS, strict=False):
        assert sentence.startswith(f"rewrite, member read per written, {group}: 0.00")
        assert f"“{OFF}” (not aligned)" in sentence
        assert re.search(rf"0\.500? for “{OFF}”", sentence)
    assert all(claimed for _, claimed in sentences(stacks)[:4])
    every = [a.text for a in stacks.answers if a.column.metric == "member_read_per_written"]
    assert len(every) == 8, "two phases of four groups: each has its own answer"


def test_what_tells_no_rows_apart_is_said_once_and_later(stacks: Report) -> None:
    said = [sentence for sentence, _ in sentences(stacks)]
    hardly = "write, member read per written: under 0.01 for all, in all 4 groups, 6 rounds"
    assert said[4:] == [
        hardly.replace("member read per written: under 0.01", "flushes per fsync: 2.08"),
        hardly,
        "rewrite, flushes per fsync: 2.08 for all, in all 4 groups, 6 rounds",
        f"mkfs, write, rewrite: not judged, {WHY['emulated']}",
    ]


def test_what_the_media_say_of_alignment_is_said_once_for_all_rows_of_which_it_is_true(
    stacks: Report,
) -> None:
    shown = joined(text(stacks, 100).splitlines())
    assert shown.count("the volume begins 128 KiB into a stripe") == 1
    assert f"xfs · RAID 6 of 5: {OFF}: the volume begins 128 KiB into a stripe" in shown


def test_numbers_that_are_not_judged_have_a_mark_and_one_note(stacks: Report) -> None:
    shown = text(stacks, 120)
    assert "unjudged" not in shown
    assert shown.count(f"{UNJUDGED}: not compared") == 1
    for column in stacks.columns:
        if column.headline:
            assert all(entry.unjudged for _, entry in stacks.of(column))
    rows = [line for line in shown.splitlines() if line.startswith("array  ")]
    assert rows and all(UNJUDGED in line for line in rows if "yes" in line)
    html = EXPORTERS["html"].text(stacks)
    assert html.count(f"{UNJUDGED}: not compared") == 1
    dots = re.findall(r'<circle class="dot[^>]*data-t="[^"]*trial', html)
    assert len(dots) == sum(entry.n for entry in stacks.entries if entry.column.headline)


def test_html_has_the_groups_as_headings_and_json_has_them_with_each_answer(stacks: Report) -> None:
    html = EXPORTERS["html"].text(stacks)
    assert html.count('scope="rowgroup">xfs · RAID 6 of 5<') == len(panels(stacks))
    data = json.loads(EXPORTERS["json"].text(stacks))
    assert {a["group"] for a in data["answers"]} == set(GROUPS)
    assert data["cells"][3]["name"] == f"ext4 · RAID 5 of 4 · {OFF}"
    assert (data["cells"][3]["group"], data["cells"][3]["short"]) == ("ext4 · RAID 5 of 4", OFF)


# ---- pairs, winners, many ---------------------------------------------------------------------------


def _fsyncs(flushes: int, wall: float) -> dict[str, Any]:
    load = workload("tree", {"create": (50, 204800), "fsync": (50, 0)}, wall, 0.1, 1)
    return phase_end(1, "deliver", "workload", wall, workload=load, leaves=[leaf(flushes=flushes, writes=60)])


_ONE = {"stack": {"devices": [{"file": {"size": 1 << 30}}]}, "phases": []}
_NATIVE = [{"event": "trial_start", "place": "native"}]


def barriers(path: Path, faster: Callable[[str], bool]) -> Report:
    """Three file systems with barriers and without; without them it is faster where `faster` says so."""
    flushes = {"ext3": 100, "ext4": 100, "xfs": 50}

    def events(label: dict[str, str], rnd: int) -> list[dict[str, Any]]:
        off = label["barriers"] == "off"
        wall = (1.0 if off == faster(label["filesystem"]) else 2.0) + rnd / 100
        return [*_NATIVE, _fsyncs(0 if off else flushes[label["filesystem"]], wall)]

    axes = {"filesystem": ("ext3", "ext4", "xfs"), "barriers": ("on", "off")}
    return campaign(path, axes, events, reference={"barriers": "on"}, spec=_ONE)


def test_pairs_are_told_together(tmp_path: Path) -> None:
    said = [sentence for sentence, _ in sentences(barriers(tmp_path / "s.sqlite", lambda fs: True))]
    pairs = "ext3: off 0, on 2.00; ext4: off 0, on 2.00; xfs: off 0, on 1.00"
    assert f"deliver, flushes per fsync: {pairs}, 6 rounds" in said


def test_the_same_best_in_all_groups_is_one_sentence(tmp_path: Path) -> None:
    said = sentences(barriers(tmp_path / "s.sqlite", lambda fs: True))
    [(sentence, claimed)] = [pair for pair in said if "fastest" in pair[0]]
    assert claimed
    assert re.fullmatch(
        r"deliver: off is fastest in all 3 groups, \d\.\d\d to \d\.\d\d× on, 6 rounds", sentence
    )


def test_different_bests_are_told_group_by_group(tmp_path: Path) -> None:
    report = barriers(tmp_path / "s.sqlite", lambda fs: fs != "xfs")
    said = joined([sentence for sentence, _ in sentences(report)])
    assert "ext3: off is fastest" in said and "xfs: on is fastest" in said
    assert "in all 3 groups" not in said


def test_beyond_eight_comparisons_the_rest_is_counted_and_asked_for_by_phase(tmp_path: Path) -> None:
    def events(label: dict[str, str], rnd: int) -> list[dict[str, Any]]:
        wall = 1.0 + (label["filesystem"] == "b") + rnd / 100
        return [*_NATIVE, *(phase_end(i, f"step {i}", "check", wall) for i in range(12))]

    report = campaign(tmp_path / "s.sqlite", {"filesystem": ("a", "b")}, events, reference={}, spec=_ONE)
    said = [sentence for sentence, _ in sentences(report)]
    assert len(said) == 9
    assert said[-1].startswith("4 more comparisons: ")
    assert len(sentences(report, everything=True)) == len(report.answers) >= 12


def test_loads_flushes_and_checks_stand_in_one_table_of_80_columns(tmp_path: Path) -> None:
    """What a comparison of file systems is read for."""
    systems = ("ext2", "ext3", "ext4", "xfs", "btrfs", "jfs", "reiserfs", "nilfs2", "f2fs", "ntfs")
    none = {"outcome": "not_applicable", "reason": {"message": "no checker for it exists"}}

    def tree(index: int, name: str, op: str, **more: Any) -> dict[str, Any]:
        load = workload("tree", {op: (50, 204800), **more}, 1.0, 0.1, index)
        return phase_end(index, name, "workload", 1.1, workload=load, leaves=[leaf(flushes=100, writes=60)])

    def events(label: dict[str, str], rnd: int) -> list[dict[str, Any]]:
        check = none if label["filesystem"] == "nilfs2" else {}
        return [
            *began(boot=f"b-{rnd}"),
            phase_end(0, "mkfs", "mkfs", 0.2),
            tree(1, "create", "create"),
            tree(2, "fsync each", "create", fsync=(50, 0)),
            tree(3, "read", "read"),
            tree(4, "delete", "delete"),
            phase_end(5, "check", "check", 0.5, **check),
        ]

    given = {"filesystem": systems}
    report = campaign(tmp_path / "s.sqlite", given, events, reference={"filesystem": "ext4"}, spec=_ONE)
    heads = [(column.phase, column.metric == "flushes_per_fsync") for column in panels(report)[0].columns]
    assert heads == [
        *(("create", False), ("fsync each", False), ("fsync each", True), ("read", False)),
        *(("delete", False), ("check", False)),
    ]
    lines = text(report, 80).splitlines()
    first = lines[: next(i for i, line in enumerate(lines) if line.startswith("Counts"))]
    for name in systems:
        [row] = [line for line in first if line.split()[:1] == [name]]
        assert len(re.findall(r"\d[\d.]*\*?|n/a", row.removeprefix(name).replace("±", " "))) >= 6
    assert "nilfs2: check not applicable: no checker for it exists" in "\n".join(lines)
