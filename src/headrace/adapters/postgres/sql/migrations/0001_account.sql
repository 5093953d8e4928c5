-- The account: jobs, stages, chunks with their narrow state, claims, dead letters, finish lines, events.
-- Identifiers sort by bytes (COLLATE "C") whatever the locale of the server: the fair rotation walks in that order.

CREATE SEQUENCE headrace.fence AS bigint;
CREATE SEQUENCE headrace.chunk_id AS bigint;

CREATE TABLE headrace.graph (
    digest text COLLATE "C" PRIMARY KEY,
    body text NOT NULL
);

-- cancelled: 0 no, 1 by a user, 2 stopped early because too much died. `prune_at`: when its chunks may go;
-- those of generations up to `pruned` have gone or are going.
CREATE TABLE headrace.job (
    id text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    flow text COLLATE "C" NOT NULL,
    graph text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    digest text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    state text COLLATE "C" NOT NULL DEFAULT 'open',
    generation integer NOT NULL DEFAULT 1,
    stages_open integer NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    cancelled smallint NOT NULL DEFAULT 0,
    pruned integer NOT NULL DEFAULT 0,
    purged boolean NOT NULL DEFAULT false,
    submitted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    prune_at timestamptz,
    keep_s double precision NOT NULL
);
CREATE UNIQUE INDEX job_key ON headrace.job (tenant, flow, key) WHERE key IS NOT NULL;
CREATE INDEX job_prune ON headrace.job (prune_at) WHERE prune_at IS NOT NULL;
CREATE INDEX job_ended ON headrace.job (ended_at) WHERE ended_at IS NOT NULL;

-- One tally per (job, generation, stage). What the graph says about the stage stands here as positions, so that closing
-- reads no graph.
CREATE TABLE headrace.stage (
    job text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    position integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    kind smallint NOT NULL,
    feeders integer NOT NULL,
    feeders_open integer NOT NULL,
    total bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    closed_at timestamptz,
    arrows integer[] NOT NULL,
    feeds integer[] NOT NULL,
    upstream integer[] NOT NULL,
    after_positions integer[] NOT NULL,
    unique_keys boolean NOT NULL,
    always boolean NOT NULL,
    every_generation boolean NOT NULL,
    stop_early boolean NOT NULL,
    tolerate_count bigint NOT NULL,
    tolerate_percent double precision,
    deadline_s double precision,
    PRIMARY KEY (job, generation, position)
) WITH (fillfactor = 70);

-- Written once, never updated. `ends` holds 32-bit numbers in network order. A chunk that carries on items of
-- another has `origin` and `picks`, and no payload. Payloads are not compressed: a slice reads only its own part.
CREATE TABLE headrace.chunk (
    id bigint PRIMARY KEY,
    origin bigint,
    payload bytea,
    ends bytea,
    keys text,
    picks integer[],
    seqs bigint[]
);
ALTER TABLE headrace.chunk ALTER COLUMN payload SET STORAGE EXTERNAL;
ALTER TABLE headrace.chunk ALTER COLUMN ends SET STORAGE EXTERNAL;
-- The ends of a full chunk stay in the row, beside the pointer to its payload.
ALTER TABLE headrace.chunk SET (toast_tuple_target = 4080);

-- gate: 0 open, 1 paused, 2 cancelled. kind: 0 work, 1 barrier, 2 external. `due_at` is cleared when it has passed.
-- `low` and `high` are the bit planes, first item leftmost; absent means that no item has ended. `revokes` are the
-- fences of lost claims that held these items.
CREATE TABLE headrace.chunk_state (
    id bigint PRIMARY KEY,
    due_at timestamptz,
    generation integer NOT NULL,
    position integer NOT NULL,
    priority integer NOT NULL,
    count integer NOT NULL,
    next integer NOT NULL DEFAULT 0,
    done integer NOT NULL DEFAULT 0,
    dead integer NOT NULL DEFAULT 0,
    cancelled integer NOT NULL DEFAULT 0,
    moved integer NOT NULL DEFAULT 0,
    depth integer NOT NULL DEFAULT 0,
    attempt integer NOT NULL DEFAULT 0,
    crashes smallint NOT NULL DEFAULT 0,
    kind smallint NOT NULL DEFAULT 0,
    gate smallint NOT NULL DEFAULT 0,
    fresh boolean NOT NULL DEFAULT true,
    suspect boolean NOT NULL DEFAULT false,
    ready boolean GENERATED ALWAYS AS (next < count AND gate = 0 AND kind < 2 AND due_at IS NULL) STORED,
    open boolean GENERATED ALWAYS AS (done + dead + cancelled + moved < count) STORED,
    job text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    low bit varying,
    high bit varying,
    revokes bigint[]
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX chunk_state_job ON headrace.chunk_state (job, open, generation, position, id);
CREATE INDEX chunk_state_ready ON headrace.chunk_state (queue, priority, tenant, job, id) WHERE ready;
CREATE INDEX chunk_state_due ON headrace.chunk_state (due_at) WHERE due_at IS NOT NULL AND kind < 2;
CREATE INDEX chunk_state_deadline ON headrace.chunk_state (due_at) WHERE due_at IS NOT NULL AND kind = 2;

-- `until`: when a live claim expires; when an ended one is forgotten. Bit 0 of the planes is the item at `lo`.
-- `request` is the call that was granted it, so that the same call again gets the same claims.
CREATE TABLE headrace.claim (
    fence bigint PRIMARY KEY,
    chunk bigint NOT NULL,
    until timestamptz NOT NULL,
    hold_s double precision NOT NULL,
    lo integer NOT NULL,
    hi integer NOT NULL,
    step integer NOT NULL DEFAULT 0,
    done integer NOT NULL DEFAULT 0,
    dead integer NOT NULL DEFAULT 0,
    cancelled integer NOT NULL DEFAULT 0,
    moved integer NOT NULL DEFAULT 0,
    live boolean NOT NULL DEFAULT true,
    alone boolean NOT NULL,
    worker text COLLATE "C" NOT NULL,
    request text COLLATE "C" NOT NULL,
    low bit varying,
    high bit varying
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX claim_until ON headrace.claim (live, until);

-- Parcels written ahead of the settlement (owner: its fence) or submit (owner: the job) that makes them visible.
CREATE TABLE headrace.staged (
    owner text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    chunk bigint NOT NULL,
    stage text COLLATE "C" NOT NULL,
    count integer NOT NULL,
    depth integer NOT NULL,
    delay_s double precision NOT NULL,
    staged_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (owner, number)
);

CREATE TABLE headrace.cursor (
    job text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    position integer NOT NULL,
    seq bigint NOT NULL,
    cursor bytea NOT NULL,
    PRIMARY KEY (job, generation, position, seq)
);

CREATE TABLE headrace.item_cancel (
    job text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    position integer NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (job, generation, position, seq)
);

CREATE TABLE headrace.unique_key (
    job text COLLATE "C" NOT NULL,
    position integer NOT NULL,
    key text COLLATE "C" NOT NULL,
    PRIMARY KEY (job, position, key)
);

CREATE TABLE headrace.dead (
    job text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    position integer NOT NULL,
    seq bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    flow text COLLATE "C" NOT NULL,
    stage text COLLATE "C" NOT NULL,
    key text,
    reason text NOT NULL,
    rule text NOT NULL,
    error text NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    attempts integer NOT NULL,
    died_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    depth integer NOT NULL,
    redriven_in integer,
    revokes bigint[],
    payload bytea NOT NULL,
    PRIMARY KEY (job, generation, position, seq)
);
CREATE INDEX dead_died ON headrace.dead (died_at);
CREATE INDEX dead_fingerprint ON headrace.dead (fingerprint, died_at);

CREATE TABLE headrace.finish (
    job text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    state text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    crossed_at timestamptz NOT NULL,
    PRIMARY KEY (job, generation)
);

CREATE TABLE headrace.event (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id text COLLATE "C" NOT NULL UNIQUE,
    topic text COLLATE "C" NOT NULL,
    job text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    body jsonb NOT NULL,
    happened_at timestamptz NOT NULL
);
CREATE INDEX event_job ON headrace.event (job);

CREATE TABLE headrace.external_event (
    job text COLLATE "C" NOT NULL,
    position integer NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    arrived_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    first boolean NOT NULL,
    PRIMARY KEY (job, position, event_id)
);

CREATE TABLE headrace.worker (
    id text COLLATE "C" PRIMARY KEY,
    host text NOT NULL,
    pid integer NOT NULL,
    hold_s double precision NOT NULL,
    seen_at timestamptz NOT NULL
) WITH (fillfactor = 50);
