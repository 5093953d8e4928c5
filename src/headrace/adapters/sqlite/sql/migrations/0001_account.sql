-- The account: jobs, stages, chunks with their narrow state, claims, dead letters, finish lines, events.

CREATE TABLE headrace_meta (key TEXT PRIMARY KEY, value ANY) WITHOUT ROWID, STRICT;
INSERT INTO headrace_meta VALUES ('fence', 0);

CREATE TABLE headrace_graph (digest TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID, STRICT;

CREATE TABLE headrace_job (
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
CREATE UNIQUE INDEX headrace_job_key ON headrace_job (tenant, flow, key) WHERE key IS NOT NULL;
CREATE INDEX headrace_job_ended ON headrace_job (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX headrace_job_prune ON headrace_job (prune_at) WHERE prune_at IS NOT NULL;
CREATE INDEX headrace_job_pruning ON headrace_job (id) WHERE pruning = 1;
CREATE INDEX headrace_job_open ON headrace_job (id) WHERE ended_at IS NULL;

CREATE TABLE headrace_stage (
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
CREATE TABLE headrace_chunk (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    ends BLOB,
    keys TEXT,
    origin INTEGER,
    picks BLOB,
    seqs BLOB,
    payload BLOB
) STRICT;
CREATE INDEX headrace_chunk_origin ON headrace_chunk (origin) WHERE origin IS NOT NULL;

-- ready: 0 no, 1 can be claimed, 2 becomes ready at due_at, 3 external, dies at due_at.
-- gate: 0 open, 1 paused, 2 cancelled.
CREATE TABLE headrace_chunk_state (
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
CREATE INDEX headrace_chunk_state_job ON headrace_chunk_state (job, generation, position, id);
CREATE INDEX headrace_chunk_state_open ON headrace_chunk_state (job, generation, position) WHERE open = 1;
CREATE INDEX headrace_chunk_state_ready ON headrace_chunk_state (queue, priority, tenant, job, id) WHERE ready = 1;
CREATE INDEX headrace_chunk_state_due ON headrace_chunk_state (due_at) WHERE ready = 2;
CREATE INDEX headrace_chunk_state_external ON headrace_chunk_state (due_at) WHERE ready = 3;
CREATE UNIQUE INDEX headrace_chunk_state_staged ON headrace_chunk_state (staged, number) WHERE staged IS NOT NULL;

CREATE TABLE headrace_claim (
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
CREATE INDEX headrace_claim_live ON headrace_claim (until, boot) WHERE live = 1;
CREATE INDEX headrace_claim_chunk ON headrace_claim (chunk);
CREATE INDEX headrace_claim_forget ON headrace_claim (forget_at) WHERE live = 0;

CREATE TABLE headrace_cursor (
    job TEXT NOT NULL,
    generation INTEGER NOT NULL,
    position INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    cursor BLOB NOT NULL,
    PRIMARY KEY (job, generation, position, seq)
) WITHOUT ROWID, STRICT;

CREATE TABLE headrace_item_cancel (
    job TEXT NOT NULL,
    generation INTEGER NOT NULL,
    position INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (job, generation, position, seq)
) WITHOUT ROWID, STRICT;

CREATE TABLE headrace_unique_key (
    job TEXT NOT NULL,
    position INTEGER NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (job, position, key)
) WITHOUT ROWID, STRICT;

CREATE TABLE headrace_dead (
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
CREATE INDEX headrace_dead_died ON headrace_dead (died_at);
CREATE INDEX headrace_dead_fingerprint ON headrace_dead (fingerprint, died_at);

CREATE TABLE headrace_finish (
    job TEXT NOT NULL,
    generation INTEGER NOT NULL,
    state TEXT NOT NULL,
    event_id TEXT NOT NULL,
    crossed_at REAL NOT NULL,
    PRIMARY KEY (job, generation)
) WITHOUT ROWID, STRICT;

CREATE TABLE headrace_event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL UNIQUE,
    topic TEXT NOT NULL,
    job TEXT NOT NULL,
    generation INTEGER NOT NULL,
    body TEXT NOT NULL,
    happened_at REAL NOT NULL
) STRICT;
CREATE INDEX headrace_event_job ON headrace_event (job);

CREATE TABLE headrace_external_event (
    job TEXT NOT NULL,
    position INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    arrived_at REAL NOT NULL,
    first INTEGER NOT NULL,
    PRIMARY KEY (job, position, event_id)
) WITHOUT ROWID, STRICT;

CREATE TABLE headrace_worker (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    boot TEXT NOT NULL,
    seen REAL NOT NULL,
    hold_s REAL NOT NULL
) WITHOUT ROWID, STRICT;
