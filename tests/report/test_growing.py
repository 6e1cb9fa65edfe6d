"""A report of a campaign that is still being written: each one shows one state of the store."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from fsdyno.errors import Exit, UserError
from fsdyno.report.build import build
from fsdyno.store import Store
from tests.report.scenes import DESCRIBE, quickstart, trial_events
from tests.store.fixtures import record, start


def test_a_report_while_trials_are_recorded_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store.open(path, create=True) as store:
        campaign = start(store, ["ext4", "xfs"], reference={"filesystem": "ext4"}, describe=DESCRIBE)
    stop = threading.Event()

    def write() -> None:
        with Store.open(path) as store:
            for rnd in range(1, 1000):
                for cell, name in enumerate(("ext4", "xfs")):
                    if stop.is_set():
                        return
                    record(store, campaign, cell, rnd, trial_events(name, rnd))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with Store.open(path) as store:
            for _ in range(12):
                report = build(store, campaign, depth="all")
                counted = {row.index: row.trials for row in report.rows}
                for entry in report.entries:
                    assert entry.n <= counted[entry.cell]
                assert len({entry.n for entry in report.entries if entry.cell == 0}) <= 1
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE campaign SET points = '{secret'",
        "UPDATE campaign SET question = CAST(x'736563726574ff' AS TEXT)",
        "UPDATE trial SET flags = '{secret'",
        "UPDATE cell SET label = 'secret'",
        "UPDATE quantity SET point = 'secret'",
    ],
)
def test_a_damaged_record_is_named_and_not_quoted(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "s.sqlite"
    quickstart(path, rounds=1)
    with sqlite3.connect(path) as db:
        db.execute(damage)
    with Store.open(path) as store, pytest.raises(UserError) as caught:
        build(store)
    assert caught.value.code == Exit.STORE and "damaged" in str(caught.value) and caught.value.advice
    assert "secret" not in str(caught.value)
