"""Writing the record: campaigns, trials, and what follows from their events.

One trial is one transaction, written between trials only: the store may share the disk under test.
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from fsdyno.store.artefacts import assemble, without_data
from fsdyno.store.database import UNREADABLE, connect, damaged, explained, store_error
from fsdyno.store.deriving import derive_again, enter, where_hash
from fsdyno.store.reading import Reading
from fsdyno.store.records import canonical

_LEVEL = 6  # of zlib: events shrink about tenfold


class Store(Reading):
    """A store file: the record of campaigns. A context manager; one writer at a time."""

    def __init__(self, path: Path, connection: sqlite3.Connection, writable: bool) -> None:
        self.path = path
        self.writable = writable
        self._connection = connection

    @classmethod
    def open(cls, path: str | Path, *, create: bool = False) -> Store:
        """Opens a store, read-only where it cannot be written. Raises `UserError` with `Exit.STORE`."""
        where = Path(path)
        connection, writable = connect(where, create=create)
        return cls(where, connection, writable)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; the WAL is folded into it."""
        with explained(self.path):
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if not self.writable:
            raise store_error(
                self.path,
                "the store cannot be written",
                "use --store with a file in a folder that you may write",
            )
        with explained(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def start_campaign(
        self,
        *,
        name: str,
        question: str,
        plan_text: str,
        cells: Sequence[dict[str, Any]],
        points: Sequence[dict[str, Any]],
        reference: dict[str, Any],
        rounds: int,
        seed: int,
        where: dict[str, Any],
        describe: dict[str, Any],
        survey: dict[str, Any],
        hello: dict[str, Any] | None,
        version: str,
        origin: str,
        source: str = "measured",
    ) -> str:
        """Records a campaign that begins now, status `running`; returns its UUID.

        Each cell is `{index, name, label, spec, what}`: its label maps axes to values (as in
        `reference`), `spec` is the resolved spec and `what` its hash. Metrics come from `describe`.
        """
        campaign = str(uuid.uuid4())
        with self._transaction() as db:
            cursor = db.execute(
                "INSERT INTO campaign (id, source, name, question, plan, origin, version, rounds, seed, "
                "started, status, points, reference, where_json, where_hash, describe, survey, hello) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?)",
                (
                    campaign, source, name, question, plan_text, origin, version, rounds, seed, time.time(),
                    canonical(list(points)), canonical(reference), canonical(where), where_hash(where),
                    canonical(describe), canonical(survey), None if hello is None else canonical(hello),
                ),
            )  # fmt: skip
            n = cursor.lastrowid
            for metric in describe.get("metrics", []):
                row = tuple(metric[key] for key in ("name", "unit", "direction", "version", "definition"))
                db.execute("INSERT INTO metric VALUES (?, ?, ?, ?, ?, ?)", (n, *row))
            for cell in cells:
                db.execute(
                    "INSERT OR IGNORE INTO configuration VALUES (?, ?)",
                    (cell["what"], canonical(cell["spec"])),
                )
                db.execute(
                    "INSERT INTO cell (campaign, idx, name, label, what) VALUES (?, ?, ?, ?, ?)",
                    (n, cell["index"], cell["name"], canonical(cell["label"]), cell["what"]),
                )
        return campaign

    def exclude_cell(self, campaign: str, cell: int, outcome: str, reason: dict[str, Any] | None) -> None:
        """Records that a cell (by index) is not run at all, and why: the survey said no."""
        with self._transaction() as db:
            db.execute(
                "UPDATE cell SET excluded = ?, reason = ? WHERE campaign = ? AND idx = ?",
                (outcome, None if reason is None else canonical(reason), self._key(campaign), cell),
            )

    def record_trial(
        self,
        campaign: str,
        *,
        trial: str,
        cell: int,
        round: int,
        position: int,
        attempt: int,
        outcome: str,
        reason: dict[str, Any] | None,
        flags: Sequence[dict[str, Any]],
        started: float,
        ended: float,
        events: Sequence[dict[str, Any]],
    ) -> None:
        """Records a trial whole, or not at all: row, events, verified artefacts, derived samples.

        `started` and `ended` are wall-clock seconds since the epoch. Raises `UserError`: `Exit.AGENT` if
        an artefact is not what its digest says, `Exit.STORE` if the store cannot be written.
        """
        log = list(events)
        files = assemble(log, complete=outcome == "ok")
        lines = "\n".join(json.dumps(without_data(event), separators=(",", ":")) for event in log)
        with self._transaction() as db:
            key = self._key(campaign)
            n = db.execute(
                "INSERT INTO trial (id, campaign, cell, round, position, attempt, outcome, reason, flags, "
                "started, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    trial, key, cell, round, position, attempt, outcome,
                    None if reason is None else canonical(reason), canonical(list(flags)), started, ended,
                ),
            ).lastrowid  # fmt: skip
            assert n is not None
            db.execute("INSERT INTO event VALUES (?, ?)", (n, zlib.compress(lines.encode(), _LEVEL)))
            for sha, (names, data) in files.items():
                db.execute("INSERT OR IGNORE INTO artefact VALUES (?, ?)", (sha, zlib.compress(data, _LEVEL)))
                db.executemany(
                    "INSERT INTO trial_artefact VALUES (?, ?, ?)", [(n, sha, name) for name in names]
                )
            enter(db, n, log)

    def supersede_round(self, campaign: str, round: int) -> int:
        """Marks all trials of a round as superseded, before it is repeated whole; returns how many."""
        with self._transaction() as db:
            return db.execute(
                "UPDATE trial SET superseded = 1 WHERE campaign = ? AND round = ? AND superseded = 0",
                (self._key(campaign), round),
            ).rowcount

    def next_attempt(self, campaign: str, round: int) -> int:
        """The number of the next attempt at a round: 1, or one more than the highest so far."""
        with self._db() as db:
            row = db.execute(
                "SELECT max(attempt) FROM trial WHERE campaign = ? AND round = ?",
                (self._key(campaign), round),
            ).fetchone()
            return int(row[0] or 0) + 1

    def finish(self, campaign: str, status: str) -> None:
        """Records how the campaign ended (e.g. `complete`, `interrupted`), and when."""
        with self._transaction() as db:
            db.execute(
                "UPDATE campaign SET status = ?, ended = ? WHERE n = ?",
                (status, time.time(), self._key(campaign)),
            )

    def discard_empty(self, campaign: str) -> bool:
        """Forgets a campaign that never got a trial: the agent refused it. False if it has trials."""
        with self._transaction() as db:
            key = self._key(campaign)
            if db.execute("SELECT 1 FROM trial WHERE campaign = ? LIMIT 1", (key,)).fetchone():
                return False
            for table, column in (("metric", "campaign"), ("cell", "campaign"), ("campaign", "n")):
                db.execute(f"DELETE FROM {table} WHERE {column} = ?", (key,))
            return True

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> dict[str, int]:
        """Derives all samples again from the events; returns counts of trials and samples.

        One transaction: a store is never left half rebuilt. `progress(done, total)` counts trials.
        """
        with self._transaction() as db:
            try:
                return derive_again(db, progress)
            except UNREADABLE as error:
                raise damaged(self.path, "a record in it cannot be read") from error

    def _key(self, campaign: str) -> int:
        with self._db() as db:
            row = db.execute("SELECT n FROM campaign WHERE id = ?", (campaign,)).fetchone()
            if row is None:
                raise store_error(self.path, f"there is no campaign {campaign!r} in this store")
            return int(row[0])
