"""Opening a store file: is it ours, whole, and of a version that we know?

Fault model: the file may be missing, empty, foreign, truncated, made by a newer fsdyno, in a folder
that cannot be written, or locked by another process; a writer may be killed at any moment. Each gets
a `UserError` that names the file. A killed writer loses at most the transaction that it was in: WAL
with `synchronous=FULL`, and every trial is one transaction.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fsdyno import __version__
from fsdyno.errors import Exit, UserError
from fsdyno.store.deriving import derive_again
from fsdyno.store.schema import APPLICATION_ID, DERIVED_SINCE, MIGRATIONS, VERSION

_MAGIC = b"SQLite format 3\0"
_BUSY_SECONDS = 10.0
_DAMAGE = ("malformed", "not a database", "no such table", "no such column", "corrupt")

UNREADABLE = (ValueError, TypeError, KeyError, zlib.error)
"""What a record raises that is not what fsdyno writes."""


def store_error(path: Path, message: str, advice: str | None = None) -> UserError:
    """A `UserError` about this store file."""
    return UserError(message, code=Exit.STORE, where=str(path), advice=advice)


def damaged(path: Path, how: str) -> UserError:
    """The error for a file that is a store, but not whole. `how` quotes nothing of its contents."""
    return store_error(
        path,
        f"the store is damaged ({how})",
        "restore it from a copy; `sqlite3 FILE .recover` may save what is left",
    )


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns what SQLite says into an error that a person can act on."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise store_error(
                path,
                "another process is writing to this store",
                "wait until it is done, or use --store with another file",
            ) from error
        if "readonly" in text or "read-only" in text:
            raise store_error(
                path, "the store cannot be written", "use --store with a file in a folder that you may write"
            ) from error
        if "full" in text or ("disk I/O" in text and _full(path.parent)):
            raise store_error(
                path,
                "the disk is full: no space left to write the store",
                "free some space, or use --store with a file on another disk; "
                "--resume goes on with a campaign that was begun",
            ) from error
        if "Could not decode" in text:  # SQLite would quote the bytes
            raise damaged(path, "a text in it is not UTF-8") from error
        if any(word in text for word in _DAMAGE):
            raise damaged(path, text) from error
        if "unable to open" in text:
            raise store_error(
                path,
                "the store cannot be opened or made here",
                "use --store with a file in an ordinary folder that you may write",
            ) from error
        raise store_error(path, f"the store cannot be used ({text})") from error


def connect(path: Path, *, create: bool) -> tuple[sqlite3.Connection, bool]:
    """Opens a store and brings it to the current version. Returns it and whether it can be written.

    Raises `UserError` with `Exit.STORE`.
    """
    new = not path.exists() or path.stat().st_size == 0 if reachable(path) else True
    if new:
        if not create:
            if path.exists():
                raise store_error(
                    path, "this file is empty, not a store", "name the file that `fsdyno run` wrote"
                )
            raise store_error(
                path, "there is no store here yet", "run a plan first, or name another file with --store"
            )
        _assert_can_create(path)
    else:
        assert_ours(path)
    writable = new or (os.access(path, os.W_OK) and _folder_writable(path.parent))
    with explained(path):
        connection = sqlite3.connect(
            _uri(path, writable), uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
        try:
            _prepare(connection, path, new=new, writable=writable)
        except BaseException:
            connection.close()
            raise
    return connection, writable


def _full(folder: Path) -> bool:
    """Whether a file in this folder has no room: SQLite calls a full disk an I/O error in places."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < 1 << 16 or (found.f_files > 0 and found.f_favail == 0)


def reachable(path: Path) -> bool:
    """False if the folder is not there; raises if something on the way is no folder or is closed to us."""
    try:
        if path.is_dir():
            raise store_error(path, "this is a folder, not a store", "name a file, e.g. fsdyno.sqlite in it")
        if not stat.S_ISREG(path.stat().st_mode):
            raise store_error(path, "this is not an ordinary file", "use --store with another file")
    except FileNotFoundError:
        return False
    except OSError as error:
        raise store_error(path, f"the store cannot be reached: {error.strerror}") from error
    return True


def _assert_can_create(path: Path) -> None:
    if not path.parent.is_dir():
        raise store_error(path, "the folder does not exist", f"make it first: mkdir -p {path.parent}")
    if not _folder_writable(path.parent):
        raise store_error(
            path,
            "the folder cannot be written, so no store can be made there",
            "use --store with a file elsewhere",
        )


def _folder_writable(folder: Path) -> bool:
    # access() also says no for a read-only mount, where root would otherwise pass
    return os.access(folder, os.W_OK | os.X_OK)


def assert_ours(path: Path) -> None:
    """Reads the file's header by hand, so that a bad file is named before SQLite touches it.

    Header layout: https://www.sqlite.org/fileformat2.html §1.3.
    """
    try:
        with path.open("rb") as file:
            head = file.read(100)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise store_error(path, f"the store cannot be read: {error.strerror}") from error
    if not head.startswith(_MAGIC[: len(head)]):
        raise store_error(
            path, "this is not a store of fsdyno (nor any SQLite file)", "name another file with --store"
        )
    if len(head) < 100:
        raise store_error(path, "the store is truncated", "restore it from a copy")
    wal = Path(f"{path}-wal")
    pending = wal.exists() and wal.stat().st_size > 0
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    pages = int.from_bytes(head[28:32], "big")
    if size < pages * page and not pending:
        raise store_error(
            path,
            f"the store is truncated: {size} bytes of {pages * page}",
            "restore it from a copy; `sqlite3 FILE .recover` may save what is left",
        )
    if not pending and int.from_bytes(head[68:72], "big") != APPLICATION_ID:
        raise store_error(path, "this SQLite file is not a store of fsdyno", "name another file with --store")


def _uri(path: Path, writable: bool) -> str:
    uri = path.absolute().as_uri()
    if writable:
        return f"{uri}?mode=rwc"
    # A WAL file in a folder that cannot be written can only be read as one that nobody writes to.
    pending = Path(f"{path}-wal").exists()
    return f"{uri}?mode=ro" if pending else f"{uri}?mode=ro&immutable=1"


def _prepare(connection: sqlite3.Connection, path: Path, *, new: bool, writable: bool) -> None:
    if not new:
        _assert_version(connection, path, writable)
    if writable:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _migrate(connection, path)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA cache_size = -65536")
    connection.execute("PRAGMA mmap_size = 1073741824")


def _assert_version(connection: sqlite3.Connection, path: Path, writable: bool) -> None:
    ours = connection.execute("PRAGMA application_id").fetchone()[0]
    if ours != APPLICATION_ID:
        raise store_error(path, "this SQLite file is not a store of fsdyno", "name another file with --store")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise store_error(
            path,
            f"the store was written by a newer fsdyno (store version {version}, this one knows {VERSION})",
            "use that version of fsdyno, or another --store",
        )
    if version < VERSION and not writable:
        raise store_error(
            path, f"the store (version {version}) must be brought to version {VERSION}, but is read-only"
        )


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # read again under the lock: another process may have been faster
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for step in range(version, VERSION):
            for statement in MIGRATIONS[step].split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute("INSERT INTO migration VALUES (?, ?, ?)", (step + 1, time.time(), __version__))
        if 0 < version < DERIVED_SINCE:
            derive_again(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:  # a full disk has rolled back already
            connection.execute("ROLLBACK")
        if isinstance(error, UNREADABLE):
            raise damaged(path, "a record in it cannot be read") from error
        raise
