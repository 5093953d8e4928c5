-- Choreography: which events were told, the inbox, a bus with durable subscriptions, the ledger, leases.

-- key: events with the same key are told in order; a job's own events have none and go by their job.
-- payload: the body of an event that is not a job's own.
-- claim, claim_until: the relay's hold; it stays after the event is published, so that a repeat is known.
ALTER TABLE headrace.event
    ADD COLUMN key text COLLATE "C",
    ADD COLUMN payload bytea,
    ADD COLUMN headers text,
    ADD COLUMN claim bigint,
    ADD COLUMN claim_until timestamptz,
    ADD COLUMN published_at timestamptz;
CREATE INDEX event_unpublished ON headrace.event (id) WHERE published_at IS NULL;
CREATE INDEX event_key ON headrace.event ((coalesce(key, job)), id) WHERE published_at IS NULL;
CREATE INDEX event_published ON headrace.event (published_at) WHERE published_at IS NOT NULL AND job = '';

CREATE TABLE headrace.inbox (
    subscription text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    consumed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (subscription, event_id)
);
CREATE INDEX inbox_consumed ON headrace.inbox (consumed_at);

-- expressions: the patterns as regular expressions over a topic with a dot before it.
CREATE TABLE headrace.subscription (
    name text COLLATE "C" PRIMARY KEY,
    patterns text[] NOT NULL,
    expressions text[] NOT NULL,
    deliveries_max integer NOT NULL
);

-- Written once. It goes when no delivery of it is left.
CREATE TABLE headrace.message (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id text COLLATE "C" NOT NULL UNIQUE,
    topic text NOT NULL,
    key text NOT NULL,
    headers text NOT NULL,
    happened_at double precision NOT NULL,
    body bytea NOT NULL
);

-- state: 0 waiting, 1 waits until due_at, 2 held, 3 dealt with (kept to know a repeat), 4 dead.
-- suspect: its last consumer was lost with it, so it is delivered alone.
CREATE TABLE headrace.delivery (
    message bigint NOT NULL,
    fence bigint,
    due_at timestamptz,
    until timestamptz,
    ended_at timestamptz,
    deliveries integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    state smallint NOT NULL DEFAULT 0,
    suspect boolean NOT NULL DEFAULT false,
    subscription text COLLATE "C" NOT NULL,
    consumer text,
    reason text,
    PRIMARY KEY (subscription, message)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
CREATE INDEX delivery_waiting ON headrace.delivery (subscription, message) WHERE state = 0;
CREATE INDEX delivery_delayed ON headrace.delivery (subscription, due_at) WHERE state = 1;
CREATE INDEX delivery_held ON headrace.delivery (subscription, until) WHERE state = 2;
CREATE INDEX delivery_ended ON headrace.delivery (ended_at) WHERE state = 3;
CREATE INDEX delivery_dead ON headrace.delivery (subscription, message) WHERE state = 4;
CREATE INDEX delivery_message ON headrace.delivery (message);

CREATE TABLE headrace.ledger_account (
    name text COLLATE "C" PRIMARY KEY,
    topic text NOT NULL,
    headers text NOT NULL,
    total bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    errors bigint NOT NULL DEFAULT 0,
    sealed boolean NOT NULL DEFAULT false,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz
) WITH (fillfactor = 50);
CREATE INDEX ledger_account_finished ON headrace.ledger_account (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE headrace.ledger_source (
    account text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (account, source)
);

CREATE TABLE headrace.ledger_item (
    account text COLLATE "C" NOT NULL,
    item text COLLATE "C" NOT NULL,
    ok boolean NOT NULL,
    PRIMARY KEY (account, item)
);

-- A row is never deleted: its fence must be remembered for ever.
CREATE TABLE headrace.lease (
    name text COLLATE "C" PRIMARY KEY,
    holder text NOT NULL,
    fence bigint NOT NULL,
    epoch bigint NOT NULL,
    until timestamptz NOT NULL
) WITH (fillfactor = 50);
