-- The account: jobs, stages, chunks with their narrow state, claims, dead letters, finish lines, events.

CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY) WITHOUT ROWID, STRICT;
INSERT INTO meta VALUES ('fence', 0);

CREATE TABLE graph (digest TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID, STRICT;

CREATE TABLE job (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    flow TEXT NOT NULL,
    graph TEXT NOT NULL,
    priority INTEGER NOT NULL,
    state TEXT NOT NULL,
    generation INTEGER NOT NULL,
    stages_open INTEGER NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    pruned INTEGER NOT NULL DEFAULT 0,
    pruning INTEGER NOT NULL DEFAULT 0,
    purged INTEGER NOT NULL DEFAULT 0,
    submitted_at REAL NOT NULL,
    ended_at REAL,
    prune_at REAL,
    keep_s REAL NOT NULL,
    key TEXT,
    digest TEXT NOT NULL
) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX job_key ON job (tenant, flow, key) WHERE key IS NOT NULL;
CREATE INDEX job_ended ON job (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX job_prune ON job (prune_at) WHERE prune_at IS NOT NULL;
CREATE INDEX job_pruning ON job (id) WHERE pruning = 1;
CREATE INDEX job_open ON job (id) WHERE ended_at IS NULL;

CREATE TABLE stage (
    job TEXT NOT NULL,
    generation INTEGER NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    feeders_open INTEGER NOT NULL,
    total INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    closed_at REAL,
    PRIMARY KEY (job, generation, position)
) WITHOUT ROWID, STRICT;

-- Written once, never updated. A chunk that carries on items has an origin and picks, and no payload.
CREATE TABLE chunk (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    ends BLOB,
    keys TEXT,
    origin INTEGER,
    picks BLOB,
    seqs BLOB,
    payload BLOB
) STRICT;
CREATE INDEX chunk_origin ON chunk (origin) WHERE origin IS NOT NULL;

-- ready: 0 no, 1 can be claimed, 2 becomes ready at due_at, 3 external, dies at due_at.
-- gate: 0 open, 1 paused, 2 cancelled.
CREATE TABLE chunk_state (
    id INTEGER PRIMARY KEY,
    job TEXT NOT NULL,
    generation INTEGER NOT NULL,
    position INTEGER NOT NULL,
    queue TEXT NOT NULL,
    tenant TEXT NOT NULL,
    priority INTEGER NOT NULL,
    due_at REAL NOT NULL,
    attempt INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    suspect INTEGER NOT NULL,
    fresh INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    count INTEGER NOT NULL,
    gate INTEGER NOT NULL,
    ready INTEGER NOT NULL,
    open INTEGER NOT NULL,
    next INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    moved INTEGER NOT NULL DEFAULT 0,
    low BLOB,
    high BLOB,
    revokes TEXT,
    staged TEXT,
    number INTEGER,
    staged_at REAL
) STRICT;
CREATE INDEX chunk_state_job ON chunk_state (job, generation, position, id);
CREATE INDEX chunk_state_open ON chunk_state (job, generation, position) WHERE open = 1;
CREATE INDEX chunk_state_ready ON chunk_state (queue, priority, tenant, job, id) WHERE ready = 1;
CREATE INDEX chunk_state_due ON chunk_state (due_at) WHERE ready = 2;
CREATE INDEX chunk_state_external ON chunk_state (due_at) WHERE ready = 3;
CREATE UNIQUE INDEX chunk_state_staged ON chunk_state (staged, number) WHERE staged IS NOT NULL;

CREATE TABLE claim (
    fence INTEGER PRIMARY KEY,
    chunk INTEGER NOT NULL,
    worker TEXT NOT NULL,
    lo INTEGER NOT NULL,
    hi INTEGER NOT NULL,
    alone INTEGER NOT NULL,
    hold_s REAL NOT NULL,
    boot TEXT NOT NULL,
    until REAL NOT NULL,
    live INTEGER NOT NULL DEFAULT 1,
    step INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    moved INTEGER NOT NULL DEFAULT 0,
    low BLOB,
    high BLOB,
    forget_at REAL
) STRICT;
CREATE INDEX claim_live ON claim (until, boot) WHERE live = 1;
CREATE INDEX claim_chunk ON claim (chunk);
CREATE INDEX claim_forget ON claim (forget_at) WHERE live = 0;

CREATE TABLE cursor (
    job TEXT NOT NULL,
    generation INTEGER NOT NULL,
    position INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    cursor BLOB NOT NULL,
    PRIMARY KEY (job, generation, position, seq)
) WITHOUT ROWID, STRICT;

CREATE TABLE item_cancel (
    job TEXT NOT NULL,
    generation INTEGER NOT NULL,
    position INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (job, generation, position, seq)
) WITHOUT ROWID, STRICT;

CREATE TABLE unique_key (
    job TEXT NOT NULL,
    position INTEGER NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (job, position, key)
) WITHOUT ROWID, STRICT;

CREATE TABLE dead (
    job TEXT NOT NULL,
    generation INTEGER NOT NULL,
    position INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    flow TEXT NOT NULL,
    stage TEXT NOT NULL,
    key TEXT,
    reason TEXT NOT NULL,
    rule TEXT NOT NULL,
    error TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    died_at REAL NOT NULL,
    depth INTEGER NOT NULL,
    redriven_in INTEGER,
    revokes TEXT,
    payload BLOB NOT NULL,
    PRIMARY KEY (job, generation, position, seq)
) WITHOUT ROWID, STRICT;
CREATE INDEX dead_died ON dead (died_at);
CREATE INDEX dead_fingerprint ON dead (fingerprint, died_at);

CREATE TABLE finish (
    job TEXT NOT NULL,
    generation INTEGER NOT NULL,
    state TEXT NOT NULL,
    event_id TEXT NOT NULL,
    crossed_at REAL NOT NULL,
    PRIMARY KEY (job, generation)
) WITHOUT ROWID, STRICT;

CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL UNIQUE,
    topic TEXT NOT NULL,
    job TEXT NOT NULL,
    generation INTEGER NOT NULL,
    body TEXT NOT NULL,
    happened_at REAL NOT NULL
) STRICT;
CREATE INDEX event_job ON event (job);

CREATE TABLE external_event (
    job TEXT NOT NULL,
    position INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    arrived_at REAL NOT NULL,
    first INTEGER NOT NULL,
    PRIMARY KEY (job, position, event_id)
) WITHOUT ROWID, STRICT;

CREATE TABLE worker (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    boot TEXT NOT NULL,
    seen REAL NOT NULL,
    hold_s REAL NOT NULL
) WITHOUT ROWID, STRICT;
