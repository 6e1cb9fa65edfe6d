"""The report: says what the store holds, claims no more than the statistics, in every form."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from fsdyno.errors import Exit, UserError
from fsdyno.report import EXPORTERS
from fsdyno.report.build import Depth, build, headline
from fsdyno.report.model import Answer, Column, Report
from fsdyno.report.summary import summary
from fsdyno.report.terminal import text
from fsdyno.stats.ratio import Ratio
from fsdyno.store import Store
from tests.report.scenes import SYSTEMS, quickstart
from tests.store.fixtures import phase_end, record, start

POINTS = [{"phases.create.threads": n} for n in (1, 2, 16)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "s.sqlite"
    quickstart(path)
    return path


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "swept.sqlite"
    quickstart(path, points=list(POINTS))
    return path


def reported(
    path: Path, depth: Depth = "headline", *, phase: str | None = None, metric: str | None = None
) -> Report:
    with Store.open(path) as opened:
        return build(opened, depth=depth, phase=phase, metric=metric)


@pytest.mark.parametrize(
    ("kind", "load", "metric"),
    [
        ("workload", "tree", "operations_per_second"),
        ("workload", "random", "operations_per_second"),
        ("workload", "stream", "bytes_per_second"),
        ("mkfs", None, "wall_seconds"),
        ("check", None, "wall_seconds"),
    ],
)
def test_each_kind_of_phase_is_judged_by_what_it_is_for(kind: str, load: str | None, metric: str) -> None:
    assert headline(kind, load) == metric


def test_medians_and_ratios_are_those_of_the_samples(store: Path) -> None:
    report = reported(store)
    column = next(c for c in report.columns if c.phase == "create")
    xfs, ext4 = (report.entry(column, list(SYSTEMS).index(name)) for name in ("xfs", "ext4"))
    assert xfs is not None and ext4 is not None and xfs.ratio is not None
    assert xfs.median == pytest.approx(float(np.median(xfs.values)))
    assert (xfs.low, xfs.high) == (min(xfs.values), max(xfs.values))
    pairs = np.array(xfs.values) / np.array(ext4.values)
    assert xfs.ratio.value == pytest.approx(float(np.exp(np.log(pairs).mean())))
    assert xfs.versus == "ext4"
    assert ext4.ratio is None


def test_the_answer_names_the_winner_with_its_interval_and_the_number_of_rounds(store: Path) -> None:
    report = reported(store)
    answer = next(a for a in report.answers if a.column.phase == "create")
    assert re.fullmatch(r"create: xfs is fastest: 1\.\d\d× ext4 \[1\.\d\d, 1\.\d\d\], 6 rounds", answer.text)
    mkfs = next(a for a in report.answers if a.column.phase == "mkfs")
    assert "xfs is fastest: 0.7" in mkfs.text
    assert "the time of ext4" in mkfs.text


def test_a_row_without_a_disk_is_shown_but_not_ranked(store: Path) -> None:
    report = reported(store)
    assert [row.name for row in report.rows if row.limit] == ["tmpfs"]
    assert all("tmpfs" not in answer.text for answer in report.answers)
    assert "tmpfs" in text(report)


def test_fewer_than_six_rounds_are_a_pilot(tmp_path: Path) -> None:
    quickstart(tmp_path / "s.sqlite", rounds=5)
    report = reported(tmp_path / "s.sqlite")
    assert report.pilot
    assert not any(answer.claimed for answer in report.answers)
    shown = text(report)
    assert "xfs is fastest" not in shown
    assert "a pilot of 5 rounds" in shown
    mkfs = next(answer for answer in report.answers if answer.column.phase == "mkfs")
    assert re.fullmatch(
        r"mkfs: xfs shortest, 0\.\d+× the time of ext4 \[[\d.]+, [\d.]+\]; a pilot of 5 rounds", mkfs.text
    )
    assert "lead" not in shown


def test_a_pilot_without_a_reference_names_the_next(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite", create=True) as opened:
        campaign = start(opened, ["a", "b"], reference={})
        for rnd in range(2):
            for cell, wall in enumerate((1.0, 2.0)):
                record(opened, campaign, cell, rnd, [phase_end(0, "mkfs", "mkfs", wall + 0.1 * rnd)])
    [answer] = reported(tmp_path / "s.sqlite").answers
    assert answer.text.startswith("mkfs: a shortest, 0.5")
    assert "× the time of the next, b [" in answer.text
    assert answer.text.endswith("; a pilot of 2 rounds")


@pytest.mark.parametrize(
    ("claimed", "rounds", "said"),
    [
        (True, 6, "load: xfs is fastest at all 2 points, 1.20 to 1.40× ext4, 6 rounds"),
        (
            False,
            6,
            "load: no clear winner at any of 2 points; by median xfs fastest, 1.20 to 1.40× ext4, 6 rounds",
        ),
        (False, 2, "load: xfs fastest at all 2 points, 1.20 to 1.40× ext4; a pilot of 2 rounds"),
    ],
)
def test_a_sweep_with_one_best_is_one_sentence(claimed: bool, rounds: int, said: str) -> None:
    answers = [
        Answer(
            Column("load", "workload", "random", {"threads": n}, str(n), "rate", "1/s", "higher", True),
            f"at {n}",
            claimed,
            "xfs",
            Ratio(rounds, value, None, None, None, None, None, 0.95),
            "ext4",
            rounds,
        )
        for n, value in ((1, 1.2), (4, 1.4))
    ]
    assert summary(answers) == [(said, claimed)]


def test_equals_share_the_lead(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    with Store.open(tmp_path / "s.sqlite", create=True) as opened:
        campaign = start(opened, ["a", "b"])
        for rnd in range(8):
            for cell in (0, 1):
                event = phase_end(0, "mkfs", "mkfs", float(rng.lognormal(0, 0.1)))
                record(opened, campaign, cell, rnd, [event])
    [answer] = reported(tmp_path / "s.sqlite").answers
    assert answer.text.startswith("mkfs: no clear winner among ")
    assert not answer.claimed


def test_a_comparison_holds_all_other_axes_equal(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite", create=True) as opened:
        labels = [{"fs": fs, "size": size} for fs in ("a", "b") for size in ("1 GiB", "9 GiB")]
        cells = [
            {"index": i, "name": f"{x['fs']} {x['size']}", "label": x, "spec": {}, "what": str(i)}
            for i, x in enumerate(labels)
        ]
        campaign = start(opened, ["a"], cells=cells, reference={"fs": "a"})
        for rnd in range(6):
            for cell, wall in enumerate((1.0, 10.0, 2.0, 30.0)):
                record(opened, campaign, cell, rnd, [phase_end(0, "mkfs", "mkfs", wall)])
    entries = {e.cell: e for e in reported(tmp_path / "s.sqlite").entries}
    assert [(e.versus, e.ratio and round(e.ratio.value, 6)) for _, e in sorted(entries.items())] == [
        (None, None),
        (None, None),
        ("a 1 GiB", 2.0),
        ("a 9 GiB", 3.0),
    ]


def test_points_keep_the_plans_order_and_names(swept: Path) -> None:
    report = reported(swept)
    assert [c.point_name for c in report.columns if c.phase == "create"] == [
        "threads=1",
        "threads=2",
        "threads=16",
    ]
    phases = list(dict.fromkeys(c.phase for c in report.columns))
    assert phases.index("create") < phases.index("read") < phases.index("delete")
    assert "create: xfs is fastest at all 3 points" in text(report)


def test_it_fits_the_terminal(store: Path, swept: Path) -> None:
    for path in (store, swept):
        for width in (80, 100, 132):
            assert max(len(line) for line in text(reported(path), width).splitlines()) <= width


def test_what_could_not_be_measured_is_said_with_its_reason(store: Path) -> None:
    shown = " ".join(text(reported(store), 200).split())
    assert "jfs: not measured, unsupported: the kernel has no driver for it (run it in a guest)" in shown
    assert "ext2" in shown and "ext4 driver" in shown
    assert "! stolen time: 1 of 36 trials in create; e.g. 8 % of the CPU time was stolen, limit 5 %" in shown


def test_failed_trials_are_told(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite", create=True) as opened:
        campaign = start(opened, ["a", "b"])
        for rnd in range(6):
            record(opened, campaign, 0, rnd, [phase_end(0, "mkfs", "mkfs", 1.0)])
            failed = {"outcome": "failed", "reason": {"message": "mkfs said no", "advice": "ask it"}}
            record(opened, campaign, 1, rnd, [phase_end(0, "mkfs", "mkfs", 1.0, **failed)], **failed)
    assert "b: 6 failed of 6 trials: mkfs said no (ask it)" in text(reported(tmp_path / "s.sqlite"), 120)


def test_a_campaign_without_trials_still_reports(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite", create=True) as opened:
        start(opened, ["a", "b"])
    for exporter in EXPORTERS.values():
        assert exporter.text(reported(tmp_path / "s.sqlite", exporter.depth))


@pytest.mark.parametrize(
    ("wanted", "message", "advice"),
    [
        ({"phase": "creat"}, "no phase 'creat'", "did you mean 'create'?"),
        ({"metric": "zzz"}, "no metric", "it has:"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(
    store: Path, wanted: dict[str, str], message: str, advice: str
) -> None:
    with pytest.raises(UserError, match=message) as error:
        reported(store, phase=wanted.get("phase"), metric=wanted.get("metric"))
    assert error.value.code is Exit.USAGE
    assert error.value.advice is not None and advice in error.value.advice


def test_one_metric_can_be_asked_for(store: Path) -> None:
    report = reported(store, metric="flushes")
    assert {c.metric for c in report.columns} == {"flushes"}
    assert report.answers == []  # neither more nor less of it is better


def test_json_has_every_sample_and_no_nan(store: Path) -> None:
    data = json.loads(EXPORTERS["json"].text(reported(store, "all")), parse_constant=pytest.fail)
    assert data["format"] == 1
    create = [c for c in data["columns"] if c["phase"] == "create"]
    assert {"operations_per_second", "wall_seconds", "write_bytes", "latency_p99"} <= {
        c["metric"] for c in create
    }
    assert all(len(e["values"]) == e["n"] == 6 for c in create for e in c["entries"])
    assert data["cells"][0]["title"] == "ext2 (ext4 driver)"
    assert data["campaign"]["reference"] == {"filesystem": "ext4"}


def test_csv_has_one_line_per_sample_at_full_precision(store: Path) -> None:
    report = reported(store, "all")
    lines = list(csv.DictReader(io.StringIO(EXPORTERS["csv"].text(report))))
    assert len(lines) == sum(entry.n for entry in report.entries)
    assert [float(line["value"]) for line in lines] == [v for entry in report.entries for v in entry.values]
    assert {line["suspect"] for line in lines} == {"0", "1"}


class Page(HTMLParser):
    """Collects what a page shows and what it would fetch."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.dots: list[str] = []
        self.fetched: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "circle" and "dot" in (given.get("class") or "").split():
            self.dots.append(given["data-t"] or "")
        for key in ("src", "href", "data"):
            value = given.get(key)
            if value and not value.startswith("#"):
                self.fetched.append(value)
        if tag not in ("meta", "circle", "line", "rect", "polyline", "br", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("which", ["store", "swept"])
def test_html_shows_every_headline_point_and_fetches_nothing(
    which: str, request: pytest.FixtureRequest
) -> None:
    report = reported(request.getfixturevalue(which), "deep")
    html = EXPORTERS["html"].text(report)
    page = Page(html)
    trials = [dot for dot in page.dots if "trial" in dot]
    assert len(trials) == sum(entry.n for entry in report.entries if entry.column.headline)
    assert page.fetched == []
    assert page.open == []
    assert "@import" not in html and "url(" not in html
    assert re.search(r"https?://", html) is None


def test_html_answers_first_and_tells_where_it_comes_from(store: Path) -> None:
    html = EXPORTERS["html"].text(reported(store, "deep"))
    places = [html.index(word) for word in ("create: xfs is fastest", '<svg class="s"', 'id="provenance"')]
    assert places == sorted(places)
    for word in (
        "mkfs.xfs -F /dev/loop0",
        "seed",
        "btrfs: something to look at",
        "61 ns per operation",
        "plans/quickstart.toml",
    ):
        assert word in html


def test_html_shows_what_was_written_not_what_it_would_do(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite", create=True) as opened:
        campaign = start(opened, ["<script>alert(1)</script>", 'b" onload="x'], question="a < b & c?")
        for rnd in range(6):
            for cell in (0, 1):
                record(opened, campaign, cell, rnd, [phase_end(0, "<b>", "mkfs", 1.0 + rnd + cell)])
    html = EXPORTERS["html"].text(reported(tmp_path / "s.sqlite", "deep"))
    assert "<script>alert" not in html
    assert 'b" onload' not in html
    assert Page(html).open == []


def test_latencies_are_merged_over_trials(store: Path) -> None:
    report = reported(store, "deep")
    found = next(one for one in report.latencies if one.phase == "create" and one.cell == 2)
    assert found.count == 6 * 20_000
    assert list(found.percentiles) == ["p50", "p90", "p99", "p99.9"]
    ordered = [*found.percentiles.values(), found.longest]
    assert ordered == sorted(ordered)
