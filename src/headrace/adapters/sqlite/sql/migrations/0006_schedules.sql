-- Schedules: what is submitted by the clock, the moments that were fired, and which workers have which flows.

-- origin: added, declared or undeclared. Everything up to handled_ms is dealt with. due_ms: when it wants to be looked at
-- next; absent if no worker has looked since it was changed. asked_ms: the moment of a fire that an operator asked for.
CREATE TABLE headrace_schedule (
    name TEXT PRIMARY KEY,
    flow TEXT NOT NULL,
    timetable TEXT NOT NULL,
    tz TEXT NOT NULL,
    payload BLOB,
    stage TEXT NOT NULL,
    misfire TEXT NOT NULL,
    overlap TEXT NOT NULL,
    jitter_s REAL NOT NULL,
    tenant TEXT NOT NULL,
    origin TEXT NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    revision INTEGER NOT NULL DEFAULT 1,
    handled_ms INTEGER NOT NULL,
    due_ms INTEGER,
    asked_ms INTEGER,
    missed INTEGER NOT NULL DEFAULT 0,
    last_job TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID, STRICT;

CREATE TABLE headrace_fire (
    schedule TEXT NOT NULL,
    moment_ms INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    job TEXT NOT NULL,
    reason TEXT NOT NULL,
    manual INTEGER NOT NULL,
    fired_at REAL NOT NULL,
    PRIMARY KEY (schedule, moment_ms)
) WITHOUT ROWID, STRICT;

CREATE TABLE headrace_schedule_worker (
    worker TEXT NOT NULL,
    flow TEXT NOT NULL,
    started_at REAL NOT NULL,
    PRIMARY KEY (worker, flow)
) WITHOUT ROWID, STRICT;
