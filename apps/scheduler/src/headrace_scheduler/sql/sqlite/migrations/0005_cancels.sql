-- As in infra/schema.cql.
CREATE TABLE cancel_requests (
    slot integer NOT NULL,
    asked_at text NOT NULL,
    job_id text NOT NULL,
    PRIMARY KEY (slot, asked_at, job_id)
) WITHOUT ROWID;
