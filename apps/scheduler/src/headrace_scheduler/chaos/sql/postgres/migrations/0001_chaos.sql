-- Effects of jobs. No key forbids a second effect of a job: that it does not happen is what is shown.
CREATE TABLE chaos_effects (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id text NOT NULL,
    token bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX chaos_effects_job ON chaos_effects (job_id);

-- What runs asked for, in the order in which it was decided: an entry is numbered while the fence of its job is locked.
CREATE TABLE chaos_journal (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    resource text NOT NULL,
    token bigint NOT NULL,
    act text NOT NULL,
    accepted boolean NOT NULL
);
