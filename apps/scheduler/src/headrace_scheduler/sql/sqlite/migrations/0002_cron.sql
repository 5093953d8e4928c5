-- Cron schedules and what they have fired, as in infra/schema.cql.
CREATE TABLE cron_schedules (
    schedule_id text PRIMARY KEY NOT NULL,
    expression text NOT NULL,
    time_zone text NOT NULL,
    misfire text NOT NULL,
    days_out text NOT NULL,
    payload text NOT NULL,
    max_duration_seconds real,
    callback_url text,
    correlation_id text,
    created_at text NOT NULL,
    paused integer NOT NULL,
    handled_at text NOT NULL,
    open_at text,
    revision integer NOT NULL
) WITHOUT ROWID;

CREATE TABLE cron_fires (
    schedule_id text NOT NULL,
    moment text NOT NULL,
    job_id text NOT NULL,
    fired_at text NOT NULL,
    PRIMARY KEY (schedule_id, moment)
) WITHOUT ROWID;
