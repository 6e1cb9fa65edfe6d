"""Opening: a file that is not a whole store of ours gets a sentence, never a traceback."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from fsdyno.errors import Exit, UserError
from fsdyno.store import Store
from fsdyno.store.schema import VERSION
from tests.store.fixtures import phase_end, record, start

ROOT = Path(__file__).parents[2]


def refused(path: Path, *, create: bool = False) -> str:
    with pytest.raises(UserError) as error:
        Store.open(path, create=create)
    assert error.value.code is Exit.STORE
    assert str(path) in str(error.value)
    return error.value.message


def filled(path: Path, trials: int = 20) -> Path:
    with Store.open(path, create=True) as store:
        campaign = start(store, ["a"])
        for rnd in range(trials):
            record(store, campaign, 0, rnd, [phase_end(0, "mkfs", "mkfs", 1.0 + rnd)])
    return path


def test_a_missing_store_is_made_only_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    assert "no store here yet" in refused(path)
    assert not path.exists()
    with Store.open(path, create=True) as store:
        assert store.campaigns() == []
    with Store.open(path) as store:
        assert store.campaigns() == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "folder does not exist" in refused(tmp_path / "no" / "s.sqlite", create=True)


def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    assert "folder" in refused(tmp_path, create=True)


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "cannot be reached" in refused(tmp_path / "file" / "s.sqlite", create=True)


@pytest.mark.parametrize("content", [b"hello, world\n" * 100, b"S", b"\0" * 4096, b"\x89PNG\r\n"])
def test_a_foreign_file_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.sqlite"
    path.write_bytes(content)
    refused(path, create=True)
    assert path.read_bytes() == content


def test_another_programs_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE campaign (x)")
    other.close()
    before = path.read_bytes()
    assert "not a store of fsdyno" in refused(path, create=True)
    assert path.read_bytes() == before


def test_a_store_of_a_newer_fsdyno_is_not_touched(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.sqlite")
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    assert "newer fsdyno" in refused(path)


@pytest.mark.parametrize("keep", [50, 100, 4096, 0.5, 0.99])
def test_a_truncated_store_is_recognised(tmp_path: Path, keep: float) -> None:
    path = filled(tmp_path / "s.sqlite")
    size = path.stat().st_size
    os.truncate(path, int(keep if keep > 1 else keep * size))
    assert "truncated" in refused(path)


def test_damage_in_the_middle_is_an_error_when_it_is_met(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.sqlite")
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(UserError) as error, Store.open(path) as store:
        store.campaign()
    assert error.value.code is Exit.STORE


def test_an_empty_file_may_become_a_store(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    path.touch()
    assert "empty" in refused(path)
    Store.open(path, create=True).close()
    Store.open(path).close()


def test_a_store_remembers_what_brought_it_to_its_version(tmp_path: Path) -> None:
    path = filled(tmp_path / "s.sqlite")
    with sqlite3.connect(path) as db:
        assert [row[0] for row in db.execute("SELECT version FROM migration")] == list(range(1, VERSION + 1))


def test_a_second_writer_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsdyno.store.database._BUSY_SECONDS", 0.05)
    path = filled(tmp_path / "s.sqlite")
    with Store.open(path) as first, Store.open(path) as second:
        campaign = first.campaign().id
        first._connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(UserError, match="another process is writing"):
            second.finish(campaign, "complete")
        assert second.campaign().id == campaign  # readers are never held up
        first._connection.execute("ROLLBACK")


_AS_NOBODY = """
import os, sys
from fsdyno.errors import UserError
from fsdyno.store import Store
os.setgid(65534); os.setuid(65534)  # after the imports: Python itself may lie in a home folder
path, create = sys.argv[1], sys.argv[2] == "create"
try:
    with Store.open(path, create=create) as store:
        info = store.campaign()
        print("read", len(store.trials(info.id)))
        store.finish(info.id, "complete")
except UserError as error:
    print(int(error.code), error.message)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody who may not write")
def test_where_one_may_not_write_one_may_still_read(tmp_path: Path) -> None:
    folder = Path("/tmp") / f"fsdyno-test-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        path = filled(folder / "s.sqlite")

        def nobody(file: Path, how: str) -> list[str]:
            run = subprocess.run(
                [sys.executable, "-c", _AS_NOBODY, str(file), how],
                capture_output=True,
                text=True,
                check=True,
                cwd=ROOT,
            )
            return run.stdout.splitlines()

        assert nobody(path, "open") == ["read 20", "7 the store cannot be written"]
        assert nobody(folder / "new.sqlite", "create")[0].startswith("7 the folder cannot be written")
        assert sorted(p.name for p in folder.iterdir()) == ["s.sqlite"]
    finally:
        for left in folder.iterdir():
            left.unlink()
        folder.rmdir()


def test_what_was_recorded_survives_a_kill(tmp_path: Path) -> None:
    """A writer dies by SIGKILL in mid-transaction: what was committed is there, the rest is not."""
    path = tmp_path / "s.sqlite"
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from fsdyno.store import Store\n"
        "from tests.store.fixtures import phase_end, record, start\n"
        f"store = Store.open({str(path)!r}, create=True); campaign = start(store, ['a'])\n"
        "for r in range(5): record(store, campaign, 0, r, [phase_end(0, 'mkfs', 'mkfs', 1.0)])\n"
        "with store._transaction() as db:\n"
        "    db.execute('UPDATE trial SET outcome = \"failed\"')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False)
    assert run.returncode == -9
    with Store.open(path) as store:
        assert [t.outcome for t in store.trials(store.campaign().id)] == ["ok"] * 5


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small tmpfs: needs root")
def test_a_full_disk_is_called_full(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], check=True)
    try:
        with pytest.raises(UserError) as caught:
            Store.open(tmp_path / "s.sqlite", create=True)
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)
    assert caught.value.code == Exit.STORE and "disk is full" in str(caught.value)


@pytest.mark.parametrize("place", ["/proc/fsdyno.sqlite", "/dev/full"])
def test_a_place_that_takes_no_store_gets_advice(place: str) -> None:
    with pytest.raises(UserError) as caught:
        Store.open(place, create=True)
    assert caught.value.code == Exit.STORE and "--store" in str(caught.value)
