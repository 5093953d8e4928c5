-- The tables of the specification and ours, as in infra/schema.cql. The columns that end in _us are the write times
-- that Cassandra keeps of itself: of two writes the one with the greater time stands.
CREATE TABLE jobs_sharded (
    bucket_id integer NOT NULL,
    scheduled_time text NOT NULL,
    job_id text NOT NULL,
    payload text,
    status text,
    attempts integer,
    status_us integer NOT NULL DEFAULT 0,
    PRIMARY KEY (bucket_id, scheduled_time, job_id)
) WITHOUT ROWID;

CREATE TABLE jobs_pending_by_bucket (
    bucket_id integer NOT NULL,
    scheduled_time text NOT NULL,
    job_id text NOT NULL,
    payload text,
    payload_us integer NOT NULL DEFAULT 0,
    PRIMARY KEY (bucket_id, scheduled_time, job_id)
) WITHOUT ROWID;

CREATE TABLE job_history (
    job_id text NOT NULL,
    run_id text NOT NULL,
    worker_id text,
    fencing_token integer,
    start_at text,
    end_at text,
    status text,
    PRIMARY KEY (job_id, run_id)
) WITHOUT ROWID;

CREATE TABLE jobs_dlq (
    job_id text PRIMARY KEY NOT NULL,
    attempts integer,
    last_error text,
    last_attempt_at text,
    payload text,
    error_class text,
    stack text,
    correlation_id text
) WITHOUT ROWID;

CREATE TABLE jobs_by_id (
    job_id text PRIMARY KEY NOT NULL,
    bucket_id integer,
    scheduled_time text,
    pending_time text,
    max_duration_seconds real,
    callback_url text,
    correlation_id text,
    cancel_asked_at text,
    progress text,
    result text,
    written_us integer NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE jobs_overdue (
    bucket_id integer PRIMARY KEY NOT NULL,
    first_time text,
    last_time text
);

CREATE TABLE scheduler_settings (
    name text PRIMARY KEY NOT NULL,
    value text
) WITHOUT ROWID;

CREATE TABLE audit_events (
    day text NOT NULL,
    at text NOT NULL,
    event_id text NOT NULL,
    actor text,
    action text,
    subject text,
    detail text,
    PRIMARY KEY (day, at, event_id)
) WITHOUT ROWID;
