"""An audit looks at a store in passing: leaves it as it was, says once what is wrong with it, and goes on."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fsdyno.audit.evidence import Cost, cost, ready
from fsdyno.errors import Exit, UserError
from fsdyno.store import Store
from fsdyno.store.looking import look
from fsdyno.store.schema import VERSION
from tests.audit.campaigns import Cell, campaign, rule, stack

ROOT = Path(__file__).parents[2]


def cells(rounds: int = 6) -> list[Cell]:
    return [
        Cell("with", {"filesystem.barrier": True}, barriers="on", rates=[500.0] * rounds),
        Cell("without", {"filesystem.barrier": False}, barriers="off", rates=[2000.0] * rounds),
    ]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "held"
    folder.mkdir()
    campaign(folder / "s.sqlite", cells())
    return folder / "s.sqlite"


def ask(path: Path) -> Cost:
    return cost(rule(ready.BARRIERS_OFF), stack(), path)


def held(path: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of the store's folder, with what it holds and when it was changed."""
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in path.parent.iterdir()}


def problem(path: Path) -> str:
    """What is said of a store, the same for every rule; nothing is quoted, and nothing is changed."""
    before = held(path)
    found = ask(path)
    assert found.text == ("not measured here; plans/barriers.toml would",)
    assert found.data == {"measured": False, "plan": "plans/barriers.toml"}
    assert found.problem is not None
    assert str(path) in found.problem
    assert cost(rule(ready.OFF_STRIPE), stack(), path).problem == found.problem
    assert cost(rule(None), stack(), path).problem is None
    assert held(path) == before
    return found.problem


def change(path: Path, statement: str, *values: Any) -> None:
    with sqlite3.connect(path) as db:
        assert db.execute(statement, values).rowcount != 0, "the test changed nothing"
    db.close()


def test_a_store_is_left_as_it_was(store: Path) -> None:
    before = held(store)
    assert list(before) == ["s.sqlite"]
    assert ask(store).data["measured"]
    assert held(store) == before


def test_a_store_that_nobody_may_write_is_read(store: Path) -> None:
    store.chmod(0o444)
    store.parent.chmod(0o555)
    try:
        assert ask(store).data["measured"]
    finally:
        store.parent.chmod(0o755)


def test_what_a_campaign_is_writing_is_seen_and_it_is_not_held_up(store: Path) -> None:
    """The writer's WAL is read in place; its files stay, and it goes on while somebody looks."""
    change(store, "UPDATE trial SET superseded = 1")
    with Store.open(store) as writer:
        later = campaign(store, cells(rounds=2))
        before = held(store)
        assert (store.parent / "s.sqlite-wal").stat().st_size > 0
        assert ask(store).data["campaign"] == later
        assert held(store).keys() == before.keys()
        with look(store) as looking:
            assert looking.campaign().status == "complete"
            writer.finish(later, "interrupted")
            assert looking.campaign().status == "complete", "a look is one state of the store"
        with look(store) as looking:
            assert looking.campaign().status == "interrupted"
            with pytest.raises(UserError) as refused:
                looking.finish(later, "complete")
            assert refused.value.code is Exit.STORE


def test_a_store_of_a_killed_writer_is_put_in_order_by_nobody_here(store: Path, tmp_path: Path) -> None:
    with Store.open(store):
        campaign(store, cells())
        killed = tmp_path / "killed"
        killed.mkdir()
        for name in ("s.sqlite", "s.sqlite-wal"):
            shutil.copy(store.parent / name, killed / name)
    told = problem(killed / "s.sqlite")
    assert "a writer of this store was killed" in told
    assert "fsdyno store list" in told
    done = subprocess.run(
        [sys.executable, "-m", "fsdyno.cli", "store", "list", "--store", str(killed / "s.sqlite")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ask(killed / "s.sqlite").data["measured"], "the advice mends it"


@pytest.mark.parametrize(
    ("version", "advice"), [(VERSION - 1, "store list"), (VERSION + 1, "use the fsdyno that wrote it")]
)
def test_a_store_of_another_version_is_not_brought_to_this_one(
    store: Path, version: int, advice: str
) -> None:
    db = sqlite3.connect(store)
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    told = problem(store)
    assert f"has version {version}, this fsdyno reads {VERSION}" in told
    assert advice in told


def foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE campaign (x)")
    db.close()


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda path: os.truncate(path, 0), "truncated"),
        (lambda path: os.truncate(path, 50), "truncated"),
        (lambda path: os.truncate(path, path.stat().st_size // 2), "truncated"),
        (lambda path: path.write_bytes(b"hello, world\n" * 100), "not a store"),
        (foreign, "not a store"),
        (overwritten, "damaged"),
    ],
    ids=["empty", "50 bytes", "half", "text", "foreign", "overwritten"],
)
def test_a_file_that_is_no_whole_store_is_told_of(
    store: Path, harm: Callable[[Path], None], words: str
) -> None:
    harm(store)
    assert words in problem(store)


def test_a_folder_or_a_pipe_in_the_place_of_a_store_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    for name, words in (
        ("folder", "this is a folder"),
        ("pipe", "not an ordinary file"),
        ("file/s", "cannot be reached"),
    ):
        found = ask(tmp_path / name)
        assert found.problem is not None
        assert words in found.problem


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE configuration SET spec = '[]'",
        "UPDATE configuration SET spec = '{'",
        'UPDATE configuration SET spec = \'{"stack": 7, "filesystem": [], "phases": {"a": 1}}\'',
        'UPDATE configuration SET spec = \'{"phases": [null, 1, {"workload": [1]}]}\'',
        f"UPDATE configuration SET spec = '{DEEP}'",
        "UPDATE trial SET stood = '[]'",
        'UPDATE trial SET stood = \'{"barriers": ["off"]}\'',
        "UPDATE trial SET stood = NULL",
        "UPDATE trial SET where_json = '[]'",
        "UPDATE trial SET where_json = NULL, where_hash = NULL",
        "UPDATE trial SET flags = 'x'",
        "UPDATE trial SET round = 'x'",
        "UPDATE campaign SET reference = '7'",
        "UPDATE campaign SET where_json = '[1]'",
        'UPDATE campaign SET where_json = \'{"rig": {"name": []}}\'',
        "UPDATE campaign SET started = 'yesterday'",
        "UPDATE cell SET label = '[]'",
        "UPDATE cell SET idx = idx + 4000000000000000000",
        "UPDATE quantity SET point = '[]'",
        "UPDATE sample SET value = 'x'",
        "UPDATE sample SET value = 9e999",
        "UPDATE sample SET value = -1",
        "UPDATE sample SET value = 1e-308",
        "UPDATE metric SET unit = 'furlong'",
        "DELETE FROM metric",
        "DELETE FROM sample",
        "DELETE FROM quantity",
        "DELETE FROM trial",
        "DELETE FROM configuration",
        "DROP TABLE phase_note",
    ],
    ids=lambda statement: statement[:60],
)
def test_records_that_fsdyno_did_not_write_never_stop_an_audit(store: Path, statement: str) -> None:
    db = sqlite3.connect(store)
    db.execute("PRAGMA foreign_keys = OFF")
    db.execute(statement)
    db.commit()
    db.close()
    before = held(store)
    found = ask(store)
    assert held(store) == before
    assert 1 <= len(found.text) <= 2
    assert all(len(line) <= 78 for line in found.text)
    assert found.data["plan"] == "plans/barriers.toml"
    if found.problem:
        assert str(store) in found.problem
        assert not found.data["measured"]
    json.dumps(found.data, allow_nan=False)


def test_names_from_a_store_are_text_and_short(store: Path) -> None:
    names = {"rig": "\x1b[31mvm\n\u202e" + "x" * 10_000, "kernel": "6.1\r\x1b]0;"}
    change(store, "UPDATE campaign SET where_json = ?", json.dumps(names))
    change(
        store, "UPDATE trial SET where_json = ?", json.dumps({"place": "native", "kernel": names["kernel"]})
    )
    found = ask(store)
    assert found.data["measured"]
    assert len(found.text) == 2
    for line in found.text:
        assert len(line) <= 78
        assert line.isprintable()
    assert "\\x1b[31mvm" in " ".join(found.text)
