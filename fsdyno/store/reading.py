"""Everything that a report asks of a store. One SELECT per question, no loops over trials in SQL."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fsdyno.store.database import UNREADABLE, damaged, explained, store_error
from fsdyno.store.deriving import unpack
from fsdyno.store.records import CampaignInfo, Cell, Metric, PhaseNote, Quantity, Trial

# Outcomes that do not end a cell's turn in a round: somebody or something stopped the campaign there.
STOPPED = ("cancelled", "lost", "teardown_failed")

_CAMPAIGN = (
    "n, id, source, name, question, plan, origin, version, rounds, seed, started, ended, status, "
    "points, reference, where_json, where_hash, describe, survey, hello"
)
_TRIAL = (
    "t.id, c.id, t.cell, t.round, t.position, t.attempt, t.outcome, t.reason, t.flags, t.started, t.ended, "
    "t.superseded, t.driver, t.where_json, t.where_hash, t.made, t.stood, t.n"
)


def _json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


class Reading:
    """The reading half of a store."""

    path: Path
    _connection: sqlite3.Connection

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """While entered, all questions are answered from one state of the store, whoever writes to it."""
        if self._connection.in_transaction:
            yield
            return
        with explained(self.path):
            self._connection.execute("BEGIN")  # the state is fixed by the first SELECT
        try:
            yield
        finally:
            with explained(self.path):
                self._connection.execute("COMMIT")

    @contextmanager
    def _db(self) -> Iterator[sqlite3.Connection]:
        """For reading only: a value that is not what this fsdyno writes means a damaged store."""
        try:
            with explained(self.path):
                yield self._connection
        except UNREADABLE as error:
            raise damaged(self.path, "a record in it cannot be read") from error

    def campaigns(self) -> list[CampaignInfo]:
        """All campaigns, oldest first."""
        with self._db() as db:
            rows = db.execute(f"SELECT {_CAMPAIGN} FROM campaign ORDER BY started, n").fetchall()
            return [self._campaign(row) for row in rows]

    def campaign(self, id_or_prefix: str | None = None) -> CampaignInfo:
        """The campaign whose id begins so; the latest one if None. `UserError` if none or several do."""
        with self._db() as db:
            if id_or_prefix is None:
                rows = db.execute(
                    f"SELECT {_CAMPAIGN} FROM campaign ORDER BY started DESC, n DESC LIMIT 1"
                ).fetchall()
                if not rows:
                    raise store_error(
                        self.path, "the store holds no campaign yet", "run a plan: fsdyno run PLAN"
                    )
            else:
                rows = db.execute(
                    f"SELECT {_CAMPAIGN} FROM campaign WHERE substr(id, 1, ?) = ?",
                    (len(id_or_prefix), id_or_prefix),
                ).fetchall()
                self._assert_one("campaign", id_or_prefix, [row[1] for row in rows])
            return self._campaign(rows[0])

    def trials(self, campaign: str, include_superseded: bool = False) -> list[Trial]:
        """Trials of a campaign (its full id) in the order in which they ran."""
        with self._db() as db:
            rows = db.execute(
                f"SELECT {_TRIAL} FROM trial t JOIN campaign c ON c.n = t.campaign "
                "WHERE c.id = ? AND t.superseded <= ? ORDER BY t.round, t.attempt, t.position, t.n",
                (campaign, int(include_superseded)),
            ).fetchall()
            return [_trial(row) for row in rows]

    def trial(self, id_prefix: str) -> Trial:
        """The trial whose id begins so. `UserError` if none or several do."""
        with self._db() as db:
            rows = db.execute(
                f"SELECT {_TRIAL} FROM trial t JOIN campaign c ON c.n = t.campaign "
                "WHERE t.id >= ? AND t.id < ? LIMIT 6",
                (id_prefix, id_prefix + "\U0010ffff"),
            ).fetchall()
            self._assert_one("trial", id_prefix, [row[0] for row in rows])
            return _trial(rows[0])

    def events(self, trial: str) -> list[dict[str, Any]]:
        """The events of a trial (full id) as they came; artefacts without their bytes, see `artefact`."""
        with self._db() as db:
            row = db.execute(
                "SELECT lines FROM event JOIN trial t ON t.n = event.trial WHERE t.id = ?", (trial,)
            ).fetchone()
            if row is None:
                raise store_error(self.path, f"there are no events of a trial {trial}")
            return unpack(row[0])

    def artefact(self, sha: str) -> bytes:
        """The contents of an artefact, by SHA-256 or an unambiguous prefix of it."""
        with self._db() as db:
            rows = db.execute(
                "SELECT sha256, data FROM artefact WHERE sha256 >= ? AND sha256 < ? LIMIT 6", (sha, sha + "g")
            ).fetchall()
            self._assert_one("artefact", sha, [row[0] for row in rows])
            return zlib.decompress(rows[0][1])

    def artefacts(self, trial: str) -> list[tuple[str, str]]:
        """Names and digests of a trial's artefacts."""
        with self._db() as db:
            return db.execute(
                "SELECT a.name, a.sha256 FROM trial_artefact a JOIN trial t ON t.n = a.trial WHERE t.id = ? "
                "ORDER BY a.name",
                (trial,),
            ).fetchall()

    def complete_rounds(self, campaign: str) -> set[int]:
        """Rounds in which every cell that is not excluded has had its turn.

        Any outcome is a turn except cancelled, lost and teardown failed; superseded trials do not count.
        """
        with self._db() as db:
            marks = ",".join("?" * len(STOPPED))
            rows = db.execute(
                "SELECT t.round FROM trial t JOIN campaign c ON c.n = t.campaign "
                "JOIN cell ON cell.campaign = t.campaign AND cell.idx = t.cell "
                "WHERE c.id = ? AND t.superseded = 0 AND cell.excluded IS NULL "
                f"AND t.outcome NOT IN ({marks}) "
                "GROUP BY t.round HAVING count(DISTINCT t.cell) = "
                "(SELECT count(*) FROM cell k JOIN campaign d ON d.n = k.campaign "
                " WHERE d.id = ? AND k.excluded IS NULL)",
                (campaign, *STOPPED, campaign),
            ).fetchall()
            return {int(row[0]) for row in rows}

    def quantities(self, campaign: str) -> list[tuple[str, str, str | None, dict[str, Any], str, int]]:
        """What there are samples of: (phase, kind, load, point, metric, ordinal), in order of phases."""
        with self._db() as db:
            rows = db.execute(
                "SELECT q.phase, q.kind, q.load, q.point, q.metric, q.ordinal FROM quantity q "
                "JOIN campaign c ON c.n = q.campaign WHERE c.id = ? ORDER BY q.ordinal, q.n",
                (campaign,),
            ).fetchall()
            return [(p, k, load, json.loads(pt), m, o) for p, k, load, pt, m, o in rows]

    def samples(
        self, campaign: str, *, metrics: Collection[str] | None = None, phases: Collection[str] | None = None
    ) -> list[Quantity]:
        """Samples as arrays, by phase, point and metric, in order of phases; all of them unless narrowed.

        Trials that were superseded, cancelled, lost or not taken down are left out.
        """
        import numpy as np

        with self._db() as db:
            where, given = ["c.id = ?"], [campaign]
            for column, wanted in (("metric", metrics), ("phase", phases)):
                if wanted is not None:
                    where.append(f"q.{column} IN ({','.join('?' * len(wanted))})")
                    given.extend(wanted)
            heads = db.execute(
                "SELECT q.n, q.phase, q.kind, q.load, q.point, q.metric, q.ordinal FROM quantity q "
                f"JOIN campaign c ON c.n = q.campaign WHERE {' AND '.join(where)} ORDER BY q.ordinal, q.n",
                given,
            ).fetchall()
            marks = ",".join("?" * len(STOPPED))
            turns = db.execute(
                "SELECT t.n, t.cell, t.round FROM trial t JOIN campaign c ON c.n = t.campaign "
                f"WHERE c.id = ? AND t.superseded = 0 AND t.outcome NOT IN ({marks}) ORDER BY t.n",
                (campaign, *STOPPED),
            ).fetchall()
            turn = np.array(turns, dtype=np.int64).reshape(-1, 3)
            found = []
            for n, phase, kind, load, point, metric, ordinal in heads:
                rows = db.execute("SELECT trial, value FROM sample WHERE quantity = ?", (n,)).fetchall()
                pairs = np.array(rows, dtype=np.float64).reshape(-1, 2)
                trial = pairs[:, 0].astype(np.int64)
                # both are ordered by trial; a trial that does not count is not in `turn`
                at = np.searchsorted(turn[:, 0], trial)
                at_or_last = np.minimum(at, max(len(turn) - 1, 0))
                counts = (turn[at_or_last, 0] == trial) if len(turn) else np.zeros(len(trial), dtype=bool)
                at = at[counts]
                found.append(
                    Quantity(
                        phase,
                        kind,
                        load,
                        json.loads(point),
                        metric,
                        ordinal,
                        turn[at, 1],
                        turn[at, 2],
                        pairs[counts, 1],
                        trial[counts],
                    )
                )
            return [quantity for quantity in found if len(quantity.values)]

    def trial_samples(self, trial: str) -> list[tuple[str, dict[str, Any], str, float]]:
        """The samples of one trial: (phase, point, metric, value), in order of phases."""
        with self._db() as db:
            rows = db.execute(
                "SELECT q.phase, q.point, q.metric, s.value "
                "FROM sample s JOIN quantity q ON q.n = s.quantity "
                "JOIN trial t ON t.n = s.trial WHERE t.id = ? ORDER BY q.ordinal, q.n",
                (trial,),
            ).fetchall()
            return [(p, json.loads(pt), m, v) for p, pt, m, v in rows]

    def phase_notes(self, campaign: str) -> list[PhaseNote]:
        """Phases that were not simply ok, of trials that count."""
        with self._db() as db:
            rows = db.execute(
                "SELECT t.id, t.cell, t.round, p.phase, p.point, p.outcome, p.reason, p.flags "
                "FROM phase_note p "
                "JOIN trial t ON t.n = p.trial JOIN campaign c ON c.n = t.campaign "
                "WHERE c.id = ? AND t.superseded = 0 ORDER BY t.n, p.idx",
                (campaign,),
            ).fetchall()
            return [
                PhaseNote(t, c, r, p, json.loads(pt), o, _json(re), json.loads(f))
                for t, c, r, p, pt, o, re, f in rows
            ]

    def _campaign(self, row: tuple[Any, ...]) -> CampaignInfo:
        (
            n,
            uuid,
            source,
            name,
            question,
            plan,
            origin,
            version,
            rounds,
            seed,
            started,
            ended,
            status,
            *rest,
        ) = row
        points, reference, where, where_hash, describe, survey, hello = rest
        db = self._connection
        cells = [
            Cell(i, cell, json.loads(label), json.loads(spec), what, excluded, _json(reason))
            for i, cell, label, spec, what, excluded, reason in db.execute(
                "SELECT idx, name, label, spec, what, excluded, reason "
                "FROM cell JOIN configuration USING (what) "
                "WHERE campaign = ? ORDER BY idx",
                (n,),
            )
        ]
        metrics = {
            m[0]: Metric(*m)
            for m in db.execute(
                "SELECT name, unit, direction, version, definition FROM metric WHERE campaign = ?", (n,)
            )
        }
        return CampaignInfo(
            id=uuid,
            source=source,
            name=name,
            question=question,
            plan_text=plan,
            origin=origin,
            version=version,
            rounds=rounds,
            seed=seed,
            started=started,
            ended=ended,
            status=status,
            points=json.loads(points),
            reference=json.loads(reference),
            where=json.loads(where),
            where_hash=where_hash,
            describe=json.loads(describe),
            survey=json.loads(survey),
            hello=_json(hello),
            cells=cells,
            metrics=metrics,
            n=n,
        )

    def _assert_one(self, what: str, prefix: str, found: list[str]) -> None:
        if not found:
            raise store_error(
                self.path, f"there is no {what} {prefix!r} in this store", "see `fsdyno store list`"
            )
        if len(found) > 1:
            some = ", ".join(i[:13] for i in found[:5])
            raise store_error(
                self.path, f"{prefix!r} begins more than one {what}: {some}, …", "write more of it"
            )


def _trial(row: tuple[Any, ...]) -> Trial:
    (uuid, campaign, cell, rnd, position, attempt, outcome, reason, flags, started, ended, *rest) = row
    superseded, driver, where, where_hash, made, stood, n = rest
    return Trial(
        id=uuid,
        campaign=campaign,
        cell=cell,
        round=rnd,
        position=position,
        attempt=attempt,
        outcome=outcome,
        reason=_json(reason),
        flags=[] if flags == "[]" else json.loads(flags),
        started=started,
        ended=ended,
        superseded=bool(superseded),
        driver=driver,
        where=json.loads(where),
        where_hash=where_hash,
        made=made,
        stood=json.loads(stood),
        n=n,
    )
