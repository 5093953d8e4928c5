-- Schedules: what is submitted by the clock, the moments that were fired, and which workers have which flows.

-- origin: added, declared or undeclared. Everything up to handled_ms is dealt with. due_ms: when it wants to be looked at
-- next; absent if no worker has looked since it was changed. asked_ms: the moment of a fire that an operator asked for.
CREATE TABLE headrace.schedule (
    name text COLLATE "C" PRIMARY KEY,
    flow text COLLATE "C" NOT NULL,
    timetable text NOT NULL,
    tz text NOT NULL,
    payload bytea,
    stage text NOT NULL,
    misfire text NOT NULL,
    overlap text NOT NULL,
    jitter_s double precision NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    origin text NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    revision bigint NOT NULL DEFAULT 1,
    handled_ms bigint NOT NULL,
    due_ms bigint,
    asked_ms bigint,
    missed bigint NOT NULL DEFAULT 0,
    last_job text COLLATE "C" NOT NULL DEFAULT ''
) WITH (fillfactor = 70);

CREATE TABLE headrace.fire (
    schedule text COLLATE "C" NOT NULL,
    moment_ms bigint NOT NULL,
    outcome text NOT NULL,
    job text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    manual boolean NOT NULL,
    fired_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (schedule, moment_ms)
);

CREATE TABLE headrace.schedule_worker (
    worker text COLLATE "C" NOT NULL,
    flow text COLLATE "C" NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (worker, flow)
);
