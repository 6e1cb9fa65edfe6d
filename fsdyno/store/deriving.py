"""Entering what follows from a trial's events: samples, notes, and what stood.

All of it can be thrown away and made again from the events. That is done when somebody asks for it, and
when a store comes from a version that derived less.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable
from typing import Any

from fsdyno.store.records import canonical
from fsdyno.store.samples import Derived, derive
from fsdyno.store.stood import GUEST, made_hash, stood, where_of


def where_hash(where: dict[str, Any]) -> str:
    """The *where* hash: results with different ones are not compared unasked."""
    return hashlib.sha256(canonical(where).encode()).hexdigest()


def enter(db: sqlite3.Connection, trial: int, events: list[dict[str, Any]]) -> int:
    """Derives and stores what follows from the events of a trial (by `n`) whose row is there; returns
    the number of its samples."""
    campaign, where_json, what = db.execute(
        "SELECT c.n, c.where_json, cell.what FROM trial t JOIN campaign c ON c.n = t.campaign "
        "JOIN cell ON cell.campaign = t.campaign AND cell.idx = t.cell WHERE t.n = ?",
        (trial,),
    ).fetchone()
    rig = json.loads(where_json)
    found = stood(events)
    where = dict(found.where)
    if where.get("place") != GUEST:
        where |= {key: rig[key] for key in ("kernel", "cpus") if key in rig}
    cpus = where.get("cpus")
    derived = derive(events, cpus if isinstance(cpus, int) else None)
    db.execute(
        "UPDATE trial SET driver = ?, where_json = ?, where_hash = ?, made = ?, stood = ? WHERE n = ?",
        (
            derived.driver, canonical(where), where_hash(where_of(rig, found.where)),
            made_hash(what, found.made), canonical(found.facts), trial,
        ),
    )  # fmt: skip
    return _insert(db, campaign, trial, derived)


def derive_again(
    db: sqlite3.Connection, progress: Callable[[int, int], None] | None = None
) -> dict[str, int]:
    """Makes everything derived again from the events, within the caller's transaction; counts trials and
    samples. `progress(done, total)` counts trials."""
    samples = 0
    for table in ("sample", "quantity", "phase_note"):
        db.execute(f"DELETE FROM {table}")
    trials = db.execute("SELECT n FROM trial ORDER BY n").fetchall()
    for done, (n,) in enumerate(trials, 1):
        lines = db.execute("SELECT lines FROM event WHERE trial = ?", (n,)).fetchone()
        samples += enter(db, n, unpack(lines[0]))
        if progress:
            progress(done, len(trials))
    return {"trials": len(trials), "samples": samples}


def unpack(lines: bytes) -> list[dict[str, Any]]:
    """The events of a trial, as the store keeps them. Raises `ValueError` or `zlib.error`."""
    return [json.loads(line) for line in zlib.decompress(lines).splitlines()]


def _insert(db: sqlite3.Connection, campaign: int, trial: int, derived: Derived) -> int:
    rows: list[tuple[int, int, float]] = []
    for phase in derived.samples:
        for metric, value in phase.values.items():
            found = db.execute(
                "INSERT INTO quantity (campaign, phase, kind, load, point, metric, ordinal) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (campaign, phase, point, metric) "
                "DO UPDATE SET ordinal = min(ordinal, excluded.ordinal) "
                "RETURNING n",
                (campaign, phase.phase, phase.kind, phase.load, phase.point, metric, phase.ordinal),
            ).fetchone()
            rows.append((found[0], trial, value))
    db.executemany("INSERT OR REPLACE INTO sample VALUES (?, ?, ?)", rows)
    db.executemany(
        "INSERT OR REPLACE INTO phase_note VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                trial, note.index, note.phase, note.point, note.outcome,
                None if note.reason is None else canonical(note.reason), canonical(note.flags),
            )
            for note in derived.notes
        ],
    )  # fmt: skip
    return len(rows)
