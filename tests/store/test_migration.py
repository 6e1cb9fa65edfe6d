"""A store of an older version: brought to this one with everything in it, or left as it was."""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path

import pytest

from fsdyno.errors import Exit, UserError
from fsdyno.report import EXPORTERS
from fsdyno.report.build import build
from fsdyno.store import Store
from fsdyno.store.schema import APPLICATION_ID, MIGRATIONS, VERSION
from tests.report.guests import began, file_system, work
from tests.store.fixtures import phase_end, record, start


def old(path: Path, version: int = 1) -> Path:
    """A store as that version had it: its own tables, with the rows of one that is written now."""
    new = path.with_suffix(".new")
    with Store.open(new, create=True) as store:
        campaign = start(store, ["a", "b"])
        for rnd in range(1, 4):
            native = [{"event": "trial_start", "place": "native"}, phase_end(0, "mkfs", "mkfs", float(rnd))]
            record(store, campaign, 0, rnd, native)
            record(store, campaign, 1, rnd, [*began(), file_system(), work(busy=0.3)])
    db = sqlite3.connect(path, isolation_level=None)
    for step in range(version):
        db.executescript(MIGRATIONS[step])
    db.execute("ATTACH ? AS new", (str(new),))
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        columns = ", ".join(row[1] for row in db.execute(f"PRAGMA table_info({table})"))
        db.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM new.{table}")
    db.execute("DELETE FROM migration WHERE version > ?", (version,))
    # what that version did not derive yet
    later = "metric IN ('busy_share', 'requests', 'flushes_per_fsync')"
    db.execute(f"DELETE FROM sample WHERE quantity IN (SELECT n FROM quantity WHERE {later})")
    db.execute(f"DELETE FROM quantity WHERE {later}")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    return path


def test_an_old_store_gets_what_its_events_say(tmp_path: Path) -> None:
    path = old(tmp_path / "s.sqlite")
    with Store.open(path) as store, Store.open(path.with_suffix(".new")) as new:
        campaign = store.campaign().id
        assert store.trials(campaign) == new.trials(campaign)
        for trial in store.trials(campaign):
            assert sorted(store.trial_samples(trial.id), key=str) == sorted(
                new.trial_samples(trial.id), key=str
            )
            assert store.events(trial.id) == new.events(trial.id)
        for exporter in EXPORTERS.values():
            assert exporter.text(build(store, depth=exporter.depth))


def test_the_way_to_this_version_is_remembered(tmp_path: Path) -> None:
    path = old(tmp_path / "s.sqlite")
    Store.open(path).close()
    db = sqlite3.connect(path)
    assert [row[0] for row in db.execute("SELECT version FROM migration ORDER BY 1")] == list(
        range(1, VERSION + 1)
    )
    assert db.execute("PRAGMA user_version").fetchone()[0] == VERSION
    db.close()


@pytest.mark.parametrize("record", [b"not compressed", zlib.compress(b"{no JSON")])
def test_an_old_store_with_a_damaged_record_is_left_as_it_was(tmp_path: Path, record: bytes) -> None:
    path = old(tmp_path / "s.sqlite")
    db = sqlite3.connect(path)
    db.execute("UPDATE event SET lines = ? WHERE trial = 2", (record,))
    db.commit()
    db.close()
    with pytest.raises(UserError) as caught:
        Store.open(path)
    assert caught.value.code is Exit.STORE and "damaged" in caught.value.message
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone()[0] == 1
    assert "where_json" not in [row[1] for row in db.execute("PRAGMA table_info(trial)")]
    db.close()
