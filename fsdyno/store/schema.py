"""The shape of the store, as migrations: the one place with table definitions.

Each entry of `MIGRATIONS` takes a store from version i to i + 1 and is never edited once released.
Trials have a UUID for people and a small integer (`n`) for joins: a campaign has millions of samples.

What is derived from events (`quantity`, `sample`, `phase_note`, and of `trial` the driver,
*where*, *made* and what stood) can be thrown away and rebuilt; everything else is the
record.
"""

from __future__ import annotations

APPLICATION_ID = 0x66736479  # "fsdy": tells our files from other SQLite files

_V1 = """
CREATE TABLE migration (
    version INTEGER PRIMARY KEY,
    applied REAL NOT NULL,              -- seconds since the epoch
    fsdyno  TEXT NOT NULL               -- the version that applied it
);
CREATE TABLE campaign (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,    -- UUID
    source     TEXT NOT NULL CHECK (source IN ('measured', 'imported', 'published')),
    name       TEXT NOT NULL,
    question   TEXT NOT NULL,
    plan       TEXT NOT NULL,           -- the plan file as it was
    origin     TEXT NOT NULL,           -- where that file was
    version    TEXT NOT NULL,           -- of fsdyno
    rounds     INTEGER NOT NULL,        -- wanted
    seed       INTEGER NOT NULL,
    started    REAL NOT NULL,
    ended      REAL,
    status     TEXT NOT NULL,
    points     TEXT NOT NULL,           -- JSON: sweep points
    reference  TEXT NOT NULL,           -- JSON: axis -> value
    where_json TEXT NOT NULL,           -- JSON: rig, kernel, tools, engine
    where_hash TEXT NOT NULL,
    describe   TEXT NOT NULL,           -- JSON: the agent's tables
    survey     TEXT NOT NULL,           -- JSON: what the rig could do
    hello      TEXT                     -- JSON: agent's version and calibration
);
CREATE TABLE metric (
    campaign   INTEGER NOT NULL REFERENCES campaign(n),
    name       TEXT NOT NULL,
    unit       TEXT NOT NULL,
    direction  TEXT NOT NULL CHECK (direction IN ('higher', 'lower', 'neither')),
    version    INTEGER NOT NULL,
    definition TEXT NOT NULL,
    PRIMARY KEY (campaign, name)
) WITHOUT ROWID;
CREATE TABLE configuration (
    what TEXT PRIMARY KEY,              -- hash of the resolved spec
    spec TEXT NOT NULL                  -- JSON
) WITHOUT ROWID;
CREATE TABLE cell (
    campaign INTEGER NOT NULL REFERENCES campaign(n),
    idx      INTEGER NOT NULL,
    name     TEXT NOT NULL,
    label    TEXT NOT NULL,             -- JSON: axis -> value
    what     TEXT NOT NULL REFERENCES configuration(what),
    excluded TEXT,                      -- outcome, if the survey said no before the first round
    reason   TEXT,                      -- JSON
    PRIMARY KEY (campaign, idx)
) WITHOUT ROWID;
CREATE TABLE trial (
    n          INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,    -- UUID
    campaign   INTEGER NOT NULL REFERENCES campaign(n),
    cell       INTEGER NOT NULL,
    round      INTEGER NOT NULL,
    position   INTEGER NOT NULL,        -- in its round
    attempt    INTEGER NOT NULL,        -- of that round
    outcome    TEXT NOT NULL,
    reason     TEXT,                    -- JSON
    flags      TEXT NOT NULL,           -- JSON
    started    REAL NOT NULL,
    ended      REAL NOT NULL,
    superseded INTEGER NOT NULL DEFAULT 0,
    driver     TEXT,                    -- derived: the kernel driver that served it
    FOREIGN KEY (campaign, cell) REFERENCES cell(campaign, idx)
);
CREATE INDEX trial_of_campaign ON trial (campaign, superseded, round, position);
CREATE TABLE event (
    trial INTEGER PRIMARY KEY REFERENCES trial(n),
    lines BLOB NOT NULL                 -- zlib of JSON lines, without artefact data
);
CREATE TABLE artefact (
    sha256 TEXT PRIMARY KEY,
    data   BLOB NOT NULL                -- zlib
) WITHOUT ROWID;
CREATE TABLE trial_artefact (
    trial  INTEGER NOT NULL REFERENCES trial(n),
    sha256 TEXT NOT NULL REFERENCES artefact(sha256),
    name   TEXT NOT NULL,
    PRIMARY KEY (trial, sha256, name)
) WITHOUT ROWID;
CREATE TABLE quantity (                 -- derived: what samples are of
    n        INTEGER PRIMARY KEY,
    campaign INTEGER NOT NULL REFERENCES campaign(n),
    phase    TEXT NOT NULL,
    kind     TEXT NOT NULL,             -- of the phase
    load     TEXT,                      -- kind of workload
    point    TEXT NOT NULL,             -- canonical JSON, {} outside a sweep
    metric   TEXT NOT NULL,
    ordinal  INTEGER NOT NULL,          -- place of the phase in its trial, for display
    UNIQUE (campaign, phase, point, metric)
);
CREATE TABLE sample (                   -- derived
    quantity INTEGER NOT NULL REFERENCES quantity(n),
    trial    INTEGER NOT NULL REFERENCES trial(n),
    value    REAL NOT NULL,
    PRIMARY KEY (quantity, trial)       -- a report reads whole quantities: one range each
) WITHOUT ROWID;
CREATE INDEX sample_of_trial ON sample (trial);
CREATE TABLE phase_note (               -- derived: phases that were not simply ok
    trial   INTEGER NOT NULL REFERENCES trial(n),
    idx     INTEGER NOT NULL,
    phase   TEXT NOT NULL,
    point   TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reason  TEXT,
    flags   TEXT NOT NULL,
    PRIMARY KEY (trial, idx)
) WITHOUT ROWID;
"""

# All derived: where as JSON (place, kernel, accelerator, cpus, memory, boot), the hash of the campaign's
# *where* with a guest's own, the hash of *what* and of what mkfs made of it, and that and alignment as JSON.
_V2 = """
ALTER TABLE trial ADD COLUMN where_json TEXT;
ALTER TABLE trial ADD COLUMN where_hash TEXT;
ALTER TABLE trial ADD COLUMN made TEXT;
ALTER TABLE trial ADD COLUMN stood TEXT;
"""

MIGRATIONS: tuple[str, ...] = (_V1, _V2)
VERSION = len(MIGRATIONS)

DERIVED_SINCE = 2
"""A store of an older version is derived again when it is brought to this one."""
