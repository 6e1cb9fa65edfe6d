"""Reading a store in passing, for somebody who asked about something else: nothing of it is made, brought to
another version, locked or written, and neither is anything beside it.

SQLite makes `-wal` and `-shm` beside a file in WAL mode that is merely read. So the file is taken as one that
nobody writes to (`immutable`) where no WAL is pending, and else read with the `-shm` that its writer has made
(`readonly_shm`), which neither waits for the writer nor makes it wait. https://www.sqlite.org/uri.html,
https://www.sqlite.org/wal.html §5.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fsdyno.store.database import assert_ours, explained, reachable, store_error
from fsdyno.store.schema import APPLICATION_ID, VERSION
from fsdyno.store.writing import Store

_BUSY_SECONDS = 0.5


@contextmanager
def look(path: Path) -> Iterator[Store]:
    """The store as it stands, in one snapshot. Raises `UserError` with `Exit.STORE`, also for a store of
    another version and for one whose writer was killed."""
    if not reachable(path):
        raise store_error(path, "there is no store here yet", "run a plan first")
    assert_ours(path)
    wal, shm = Path(f"{path}-wal"), Path(f"{path}-shm")
    pending = wal.exists() and wal.stat().st_size > 0
    if pending and not shm.exists():
        raise store_error(
            path, "a writer of this store was killed", "`fsdyno store list` puts it in order, then ask again"
        )
    how = "mode=ro&readonly_shm=1" if pending else "mode=ro&immutable=1"
    with explained(path):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?{how}", uri=True, timeout=_BUSY_SECONDS, isolation_level=None
        )
    try:
        with explained(path):
            _assert_known(connection, path)
        with (store := Store(path, connection, writable=False)).snapshot():
            yield store
    finally:
        connection.close()


def _assert_known(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise store_error(path, "this SQLite file is not a store of fsdyno")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        advice = (
            "`fsdyno store list` brings it to this one"
            if version < VERSION
            else "use the fsdyno that wrote it"
        )
        raise store_error(path, f"the store has version {version}, this fsdyno reads {VERSION}", advice)
