"""What an audit quotes of a campaign that really ran is what the report says of the same two cells."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fsdyno.audit.evidence import cost, ready
from fsdyno.report.build import build
from fsdyno.report.model import Entry, Report
from fsdyno.store import Store
from tests.audit.campaigns import rule, stack
from tests.cli.fixtures import Fsdyno, real_agent

pytestmark = pytest.mark.root

PLAN = """\
question = "What do barriers and read-ahead cost?"
rounds = 3
[trial]
stack.devices = [{ file = { size = "128MiB" } }]
phases = [
  { mkfs = {} },
  { mount = {} },
  { name = "deliver", workload.tree = { op = "create", dataset = "mail", sync = "file" } },
  { name = "write", workload.stream = { op = "write", dataset = "large", record = "1M" } },
  { name = "cold", remount = { cold = true } },
  { name = "read", workload.stream = { op = "read", dataset = "large", record = "64K" } },
  { unmount = {} },
]
[trial.datasets]
mail = { files = 40, size = "8K" }
large = { files = 1, size = "16MiB" }
[matrix]
filesystem = ["ext4"]
barriers = [{ name = "on" }, { name = "off", filesystem.barrier = false }]
"stack.settings.read_ahead" = ["128K", "8K"]
[reference]
barriers = "on"
"stack.settings.read_ahead" = "128K"
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.geteuid() != 0:
        pytest.skip("needs root: makes loop devices and mounts them")
    folder = tmp_path_factory.mktemp("evidence")
    (folder / "plan.toml").write_text(PLAN)
    done = Fsdyno(folder, real_agent())("run", "plan.toml")
    assert done.returncode == 0, done.stderr
    return folder / "fsdyno.sqlite"


def entry(report: Report, phase: str, metric: str, cell: str) -> Entry:
    [found] = [
        entry
        for entry in report.entries
        if (entry.column.phase, entry.column.metric) == (phase, metric)
        and report.rows[entry.cell].name == cell
    ]
    return found


def test_what_is_quoted_is_what_the_report_says(store: Path) -> None:
    with Store.open(store) as opened:
        report = build(opened, depth="all")
    before = {file.name: file.read_bytes() for file in store.parent.glob("fsdyno.sqlite*")}
    for evidence, phase, metric in (
        (ready.BARRIERS_OFF, "deliver", "operations_per_second"),
        (ready.READ_AHEAD, "read", "bytes_per_second"),
    ):
        found = cost(rule(evidence), stack(read_ahead=8 << 10), store)
        assert found.problem is None
        told = found.data
        wrong, right = told["cells"]
        assert (told["campaign"], told["phase"], told["metric"]) == (report.id, phase, metric)
        theirs = entry(report, phase, metric, wrong)
        assert theirs.versus == right, "the pair with the reference is preferred"
        assert theirs.ratio is not None
        assert (told["value"], told["low"], told["high"], told["rounds"]) == (
            theirs.ratio.value, theirs.ratio.low, theirs.ratio.high, 3,
        )  # fmt: skip
        assert (told["wrong"], told["right"]) == (
            theirs.median, entry(report, phase, metric, right).median,
        )  # fmt: skip
        assert report.id[:8] in " ".join(found.text)
        assert (told["rig"], told["place"]) == (report.where["rig"], "native")
    assert {file.name: file.read_bytes() for file in store.parent.glob("fsdyno.sqlite*")} == before


def test_what_was_not_measured_in_it_is_not_quoted(store: Path) -> None:
    for evidence in (ready.OFF_STRIPE, ready.GEOMETRY, ready.JOURNAL):
        assert cost(rule(evidence), stack(), store).text == (f"not measured here; {evidence.plan} would",)
