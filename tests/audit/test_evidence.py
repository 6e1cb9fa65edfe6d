"""What a finding costs, from invented campaigns: which two cells are compared, what is said of them, and
what is never said. Damaged and hostile stores: test_evidence_stores.py; a real one: test_evidence_real.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fsdyno.audit.evidence import Cost, Evidence, cost, ready
from fsdyno.audit.rules import TABLE
from fsdyno.plan import load
from fsdyno.store import Store
from tests.audit.campaigns import KIB, MIB, Cell, campaign, rule, stack
from tests.plan.conftest import describe, rig, schema

__all__ = ["describe", "rig", "schema"]  # fixtures

ROOT = Path(__file__).parents[2]
NOWHERE = ("not measured here, and no ready plan measures it",)
LVM = {"volumes": [{"name": "a"}]}
ON, OFF = {"extent": 1 * MIB, **LVM}, {"extent": 128 * KIB, **LVM}
ARRAY = {"level": 5, "chunk": 64 * KIB}
BARRIERS = {"barrier": True}, {"barrier": False}


def volumes(*reads: float, kind: str = "ext4", level: int = 5) -> list[Cell]:
    """A volume on the stripe whose members read nothing, and one off it where they read so much per byte."""
    spec = {"stack.array": ARRAY | {"level": level}, "filesystem.type": kind}
    return [
        Cell("on", spec | {"stack.lvm": ON}, aligned=True, reads=[0.0] * len(reads)),
        Cell("off", spec | {"stack.lvm": OFF}, aligned=False, reads=list(reads)),
    ]


def barriers(fast: list[float], slow: list[float], **more: Any) -> list[Cell]:
    """With and without barriers: files per second of each round."""
    return [
        Cell("with", {"filesystem.barrier": True}, barriers="on", rates=slow, **more),
        Cell("without", {"filesystem.barrier": False}, barriers="off", rates=fast, **more),
    ]


def read_ahead(little: list[float], more: list[float], kind: str = "ext4") -> list[Cell]:
    """Read-ahead of 8 KiB and 128 KiB: operations per second of each round."""
    key = "stack.settings.read_ahead"
    return [
        Cell("128 KiB", {key: 128 * KIB, "filesystem.type": kind}, load="read", rates=more),
        Cell("8 KiB", {key: 8 * KIB, "filesystem.type": kind}, load="read", rates=little),
    ]


def asked(path: Path, evidence: Evidence, **of: Any) -> Cost:
    found = cost(rule(evidence), stack(**of), path)
    assert found.problem is None
    assert 1 <= len(found.text) <= 2
    assert all(0 < len(line) <= 78 for line in found.text), found.text
    assert found.data["plan"] == evidence.plan
    return found


def not_measured(path: Path, evidence: Evidence, **of: Any) -> None:
    found = asked(path, evidence, **of)
    assert found.text == (f"not measured here; {evidence.plan} would",)
    assert found.data == {"measured": False, "plan": evidence.plan}


def test_a_volume_off_the_stripe_is_quoted_with_its_interval_and_its_rig(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    # Their variance is 0.04 / 5; Student's t with 5 degrees is 2.570582 at 97.5 %.
    uuid = campaign(store, volumes(0.4, 0.6, 0.5, 0.5, 0.4, 0.6))
    found = asked(store, ready.OFF_STRIPE, md="raid5")
    assert found.text[0].startswith("measured: 0.500 B read per B written off the stripe, 0 on it")
    whole = " ".join(found.text)
    assert "(+0.500 [0.406, 0.594], 6 rounds;" in whole
    assert f"campaign {uuid[:8]}, RAID 5 of 4 × 64 KiB, bench)" in whole
    half = 2.570582 * (0.008**0.5) / 6**0.5
    told = found.data
    assert (told["value"], told["low"], told["high"]) == pytest.approx(
        (0.5, 0.5 - half, 0.5 + half), abs=1e-6
    )
    assert (told["campaign"], told["rounds"], told["unit"], told["effect"]) == (uuid, 6, "1", "difference")
    assert (told["rig"], told["place"], told["emulated"], told["pilot"]) == ("bench", "native", False, False)
    assert (told["cells"], told["stack"]) == (["off", "on"], "RAID 5 of 4 × 64 KiB on files")


def test_times_are_a_ratio_of_wrong_to_right(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    campaign(store, barriers([2000.0] * 6, [500.0] * 6))
    found = asked(store, ready.BARRIERS_OFF)
    assert found.text[0].startswith("measured: 2000 files/s without barriers, 500 with them")
    assert "(4.00× [4.00, 4.00], 6 rounds;" in " ".join(found.text)
    assert (found.data["metric"], found.data["value"]) == ("operations_per_second", pytest.approx(4))


def test_sizes_of_the_two_cells_are_named(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    campaign(store, read_ahead([100.0] * 6, [400.0] * 6))
    found = asked(store, ready.READ_AHEAD, read_ahead=8 * KIB)
    assert "with 8 KiB of read-ahead" in found.text[0]
    assert "with 128 KiB" in " ".join(found.text)


def test_evidence_of_something_else_is_not_quoted(tmp_path: Path) -> None:
    """Too much read-ahead is found by the same rule as too little, and costs something else; what is not on
    the stripe of an array without parity costs no reads."""
    store = tmp_path / "s.sqlite"
    campaign(store, read_ahead([100.0] * 6, [400.0] * 6))
    campaign(store, volumes(*[0.5] * 6))
    for evidence, audited in (
        (ready.READ_AHEAD, stack(read_ahead=1 << 30)),
        (ready.OFF_STRIPE, stack(md="raid0")),
        (ready.OFF_STRIPE, stack(off=0)),
        (ready.GEOMETRY, stack(md="raid10")),
    ):
        found = cost(rule(evidence), audited, store)
        assert (found.text, found.data) == (NOWHERE, {"measured": False, "plan": None})
    assert cost(rule(None), stack(), store).text == NOWHERE


@pytest.mark.parametrize("superblock", [{"log_size": 16 * MIB}, {"journal_size": 512 * MIB}])
def test_a_journal_is_quoted_only_for_types_and_sizes_that_the_plan_measures(
    tmp_path: Path, superblock: dict[str, int]
) -> None:
    """Another type's log is made by other rules, and one of 512 MiB, where 1 GiB is usual, is not small:
    neither a number nor the plan says anything of them."""
    store = tmp_path / "s.sqlite"
    small, usual = {"filesystem.journal_size": 4 * MIB}, {}
    campaign(store, [Cell("mkfs's", usual, rates=[900.0] * 6), Cell("4 MiB", small, rates=[300.0] * 6)])
    assert "300 files/s with a small journal" in asked(store, ready.JOURNAL).text[0]
    found = cost(rule(ready.JOURNAL), stack(superblock=superblock), store)
    assert (found.text, found.data) == (NOWHERE, {"measured": False, "plan": None})


def test_one_round_is_a_pilot_without_an_interval(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    campaign(store, volumes(0.5))
    found = asked(store, ready.OFF_STRIPE)
    assert "(+0.500, pilot of 1 round;" in " ".join(found.text)
    assert (found.data["low"], found.data["high"], found.data["pilot"]) == (None, None, True)


def test_two_rounds_have_an_interval_and_are_still_a_pilot(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    campaign(store, volumes(0.5, 0.5))
    assert "(+0.500 [0.500, 0.500], pilot of 2 rounds;" in " ".join(asked(store, ready.OFF_STRIPE).text)


def test_the_nearest_campaign_is_quoted(tmp_path: Path) -> None:
    """Same type of file system first, then an interval, the array's level, rounds, and the latest."""
    store = tmp_path / "s.sqlite"
    campaign(store, volumes(*[0.1] * 8, kind="xfs"), started=1)
    campaign(store, volumes(*[0.2] * 6, level=6), started=2)
    campaign(store, volumes(*[0.3] * 3), started=3)
    campaign(store, volumes(*[0.4] * 3), started=4)
    campaign(store, volumes(0.5), started=5)

    def value(**of: Any) -> float:
        return float(asked(store, ready.OFF_STRIPE, **of).data["value"])

    assert value(kind="xfs") == pytest.approx(0.1)
    assert value(kind="ext4", md="raid6") == pytest.approx(0.2)
    assert value(kind="ext4", md="raid5") == pytest.approx(0.4)
    assert value(kind="ext4", md="raid4") == pytest.approx(0.2), "of no known level, that of most rounds"
    assert value(kind="btrfs", md="raid5") == pytest.approx(0.1)


def test_another_type_of_file_system_is_always_named(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    campaign(store, barriers([2000.0] * 6, [500.0] * 6), rig="a-rig-with-a-name-that-is-long-and-longer")
    assert "ext4" in " ".join(asked(store, ready.BARRIERS_OFF, kind="xfs").text)


def test_cells_that_differ_in_anything_else_are_no_pair(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    for number, other in enumerate(
        ({"filesystem.type": "xfs"}, {"stack.array": ARRAY}, {"datasets.large.files": 2}, {"machine.cpus": 4})
    ):
        on, off = volumes(0.5, 0.5)
        campaign(store, [on, Cell("off", off.spec | other | {"x": number}, aligned=False, reads=[0.5, 0.5])])
    not_measured(store, ready.OFF_STRIPE)


def test_a_cell_is_on_a_side_only_if_all_its_trials_say_so(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    on, off = volumes(0.5, 0.5)
    for verdict in ([False, True], [None, None], [True, True]):
        campaign(store, [on, Cell("off", off.spec, aligned=verdict, reads=[0.5, 0.5])])
    not_measured(store, ready.OFF_STRIPE)
    campaign(store, [on, Cell("off", off.spec, aligned=[False, None], reads=[0.5, 0.5])])
    assert asked(store, ready.OFF_STRIPE).data["measured"]


def test_arrays_without_parity_show_nothing_of_partial_stripes(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    campaign(store, volumes(*[0.0] * 6, level=0))
    not_measured(store, ready.OFF_STRIPE)


def test_an_array_without_volumes_is_no_right_volume(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    on, off = volumes(0.5, 0.5)
    bare = {key: value for key, value in on.spec.items() if key != "stack.lvm"}
    campaign(store, [Cell("array", bare, aligned=True, reads=[0.0, 0.0]), off])
    not_measured(store, ready.OFF_STRIPE)


def test_different_places_are_never_compared(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    on, off = volumes(0.5, 0.5)
    campaign(store, [on, Cell("off", off.spec, aligned=False, reads=[0.5, 0.5], place="guest")])
    not_measured(store, ready.OFF_STRIPE)


def test_what_an_emulator_shows_is_counts(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    campaign(store, barriers([2000.0] * 6, [500.0] * 6, place="guest", busy=0.9))
    found = asked(store, ready.BARRIERS_OFF)
    assert found.data["metric"] == "flushes_per_fsync"
    assert (found.data["wrong"], found.data["right"], found.data["emulated"]) == (0, 2, True)
    assert "emulated guest of bench" in " ".join(found.text)


def test_trials_with_doubts_are_counted(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    campaign(store, volumes(*[0.5] * 6), doubted=2)
    found = asked(store, ready.OFF_STRIPE)
    assert found.data["doubted"] == 2
    assert "2 doubted" in " ".join(found.text)


def test_what_is_not_measured_or_not_complete_is_not_quoted(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    campaign(store, volumes(*[0.5] * 6), source="published")
    campaign(store, volumes(*[0.5] * 6), outcome="lost")
    third = Cell("third", {"filesystem.type": "xfs"}, reads=[])  # its turn never came
    campaign(store, [*volumes(*[0.5] * 6), third])
    superseded = campaign(store, volumes(0.5))
    with Store.open(store) as opened:
        opened.supersede_round(superseded, 1)
    not_measured(store, ready.OFF_STRIPE)


def test_a_metric_that_the_campaign_did_not_know_is_not_quoted(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    campaign(store, volumes(*[0.5] * 6), metrics=["wall_seconds"])
    not_measured(store, ready.OFF_STRIPE)


@pytest.mark.parametrize("evidence", ready.ALL, ids=lambda e: f"{e.plan} {e.wrong}")
def test_the_plan_that_is_named_measures_it(
    evidence: Evidence, schema: dict[str, Any], describe: dict[str, Any]
) -> None:
    """It can be run, has cells that differ in what the contrast says, and a phase and metric that show it."""
    from fsdyno.audit.evidence.search import alike, phases_of

    plan = load(ROOT / evidence.plan, schema=schema, describe=describe)
    groups = [cells for cells in alike(evidence, plan.cells).values() if len(cells) > 1]
    assert groups
    assert {shown.metric for shown in evidence.shown} <= {metric["name"] for metric in describe["metrics"]}
    for cells in groups:
        assert all(phases_of(cell.spec, shown) for cell in cells for shown in evidence.shown)


def test_alignment_is_asked_where_nothing_but_data_is_written(
    schema: dict[str, Any], describe: dict[str, Any]
) -> None:
    """Not where the page cache gathers whole stripes again: measured, 0.0075 and 0.50 bytes read per byte."""
    from fsdyno.audit.evidence.search import phases_of

    plan = load(ROOT / ready.OFF_STRIPE.plan, schema=schema, describe=describe)
    for shown in ready.OFF_STRIPE.shown:
        assert phases_of(plan.cells[0].spec, shown) == ["rewrite", "write"]


def test_rules_quote_evidence_that_is_tested_here() -> None:
    assert {rule.evidence.plan for rule in TABLE if rule.evidence} <= {known.plan for known in ready.ALL}
    assert all(any(rule.evidence is known for known in ready.ALL) for rule in TABLE if rule.evidence)


def test_nothing_heavy_is_imported_and_nothing_made_without_a_store(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from fsdyno.audit.evidence import cost, ready
from fsdyno.audit.rule import Rule
from fsdyno.audit.stack import read
rule = Rule("a-rule", "", "", (), lambda stack: (), (), ready.BARRIERS_OFF)
stack = read({"target": "/", "taken": 0, "host": {}, "layers": []})
for path in (None, Path(sys.argv[1]) / "s.sqlite", Path(sys.argv[1]) / "no" / "s.sqlite"):
    found = cost(rule, stack, path)
    assert (found.text, found.problem) == (("not measured here; plans/barriers.toml would",), None)
print(sorted({"numpy", "scipy", "sqlite3", "rich", "fsdyno.report", "fsdyno.stats"} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
    assert list(tmp_path.iterdir()) == []
