-- creates: matching_job
-- One row per job. `state` is apart from `phase`; `rank` is the number of the phase. `seed` makes a repeated request the
-- same job. `wish` has query, products and videos as they were ordered. `owed` is what the engine still has to be told of: cancel or resume;
-- `passage` is the generation of the engine's job in which this one of ours begins.
CREATE TABLE matching_job (
    job_id     text COLLATE "C" PRIMARY KEY,
    seed       text NOT NULL UNIQUE,
    state      text NOT NULL DEFAULT 'running',
    phase      text NOT NULL DEFAULT 'collection',
    rank       smallint NOT NULL DEFAULT 0,
    generation integer NOT NULL DEFAULT 1,
    passage    integer NOT NULL DEFAULT 1,
    wish       jsonb NOT NULL,
    missing    jsonb NOT NULL DEFAULT '[]',
    owed       text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    ended_at   timestamptz
) WITH (fillfactor = 70);
CREATE INDEX matching_job_created ON matching_job (created_at DESC, job_id DESC);
CREATE INDEX matching_job_owed ON matching_job (job_id) WHERE owed <> '';

-- creates: matching_phase
-- Each phase that a job has entered, with the event that announced it; again in each generation that is resumed.
CREATE TABLE matching_phase (
    job_id     text COLLATE "C" NOT NULL,
    generation integer NOT NULL,
    phase      text NOT NULL,
    event_id   text NOT NULL UNIQUE,
    entered_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, generation, phase)
);

-- creates: matching_completed
-- The events that close phases: the first of each name counts. `unit` is what wrote it.
CREATE TABLE matching_completed (
    job_id     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    event_id   text NOT NULL,
    first_seen timestamptz NOT NULL,
    unit       text NOT NULL,
    duplicates bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, name)
);

-- creates: matching_duplicate
-- Events that came when their name was there already.
CREATE TABLE matching_duplicate (
    job_id     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    event_id   text COLLATE "C" NOT NULL,
    first_seen timestamptz NOT NULL,
    times      bigint NOT NULL,
    PRIMARY KEY (job_id, name, event_id)
);

-- creates: matching_ready
-- Assets that were announced as ready.
CREATE TABLE matching_ready (
    job_id   text COLLATE "C" NOT NULL,
    name     text COLLATE "C" NOT NULL,
    asset_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (job_id, name, asset_id)
);

-- creates: matching_tally
-- How many of them there are.
CREATE TABLE matching_tally (
    job_id text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    count  bigint NOT NULL,
    PRIMARY KEY (job_id, name)
) WITH (fillfactor = 70);

-- creates: matching_unknown
-- Messages for jobs that are not known, by their digest: since when they wait.
CREATE TABLE matching_unknown (
    digest     text COLLATE "C" PRIMARY KEY,
    first_seen timestamptz NOT NULL
);
CREATE INDEX matching_unknown_seen ON matching_unknown (first_seen)
