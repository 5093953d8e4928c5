-- creates: matching_job
-- One row per job. `state` is apart from `phase`; `rank` is the number of the phase. `seed` makes a repeated request the
-- same job. `wish` has query, products and videos as they were ordered. `owed` is what the engine still has to be told of: cancel or resume;
-- `passage` is the generation of the engine's job in which this one of ours begins.
CREATE TABLE matching_job (
    job_id     TEXT PRIMARY KEY,
    seed       TEXT NOT NULL UNIQUE,
    state      TEXT NOT NULL DEFAULT 'running',
    phase      TEXT NOT NULL DEFAULT 'collection',
    rank       INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 1,
    passage    INTEGER NOT NULL DEFAULT 1,
    wish       TEXT NOT NULL,
    missing    TEXT NOT NULL DEFAULT '[]',
    owed       TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL,
    ended_at   TEXT
);
CREATE INDEX matching_job_created ON matching_job (created_at DESC, job_id DESC);
CREATE INDEX matching_job_owed ON matching_job (job_id) WHERE owed <> '';

-- creates: matching_phase
-- Each phase that a job has entered, with the event that announced it; again in each generation that is resumed.
CREATE TABLE matching_phase (
    job_id     TEXT NOT NULL,
    generation INTEGER NOT NULL,
    phase      TEXT NOT NULL,
    event_id   TEXT NOT NULL UNIQUE,
    entered_at TEXT NOT NULL,
    PRIMARY KEY (job_id, generation, phase)
);

-- creates: matching_completed
-- The events that close phases: the first of each name counts. `unit` is what wrote it.
CREATE TABLE matching_completed (
    job_id     TEXT NOT NULL,
    name       TEXT NOT NULL,
    event_id   TEXT NOT NULL,
    first_seen TEXT NOT NULL,
    unit       TEXT NOT NULL,
    duplicates INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, name)
) WITHOUT ROWID;

-- creates: matching_duplicate
-- Events that came when their name was there already.
CREATE TABLE matching_duplicate (
    job_id     TEXT NOT NULL,
    name       TEXT NOT NULL,
    event_id   TEXT NOT NULL,
    first_seen TEXT NOT NULL,
    times      INTEGER NOT NULL,
    PRIMARY KEY (job_id, name, event_id)
) WITHOUT ROWID;

-- creates: matching_ready
-- Assets that were announced as ready.
CREATE TABLE matching_ready (
    job_id   TEXT NOT NULL,
    name     TEXT NOT NULL,
    asset_id TEXT NOT NULL,
    PRIMARY KEY (job_id, name, asset_id)
) WITHOUT ROWID;

-- creates: matching_tally
-- How many of them there are.
CREATE TABLE matching_tally (
    job_id TEXT NOT NULL,
    name   TEXT NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (job_id, name)
) WITHOUT ROWID;

-- creates: matching_unknown
-- Messages for jobs that are not known, by their digest: since when they wait.
CREATE TABLE matching_unknown (
    digest     TEXT PRIMARY KEY,
    first_seen TEXT NOT NULL
);
CREATE INDEX matching_unknown_seen ON matching_unknown (first_seen)
