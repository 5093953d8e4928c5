-- Choreography: which events were told, the inbox, a bus with durable subscriptions, the ledger, leases.

-- key: events with the same key are told in order; a job's own events have none and go by their job.
-- payload: the body of an event that is not a job's own.
-- claim, claim_until, claim_boot: the relay's hold; it stays after the event is published, so that a repeat is known.
ALTER TABLE headrace_event ADD COLUMN key TEXT;
ALTER TABLE headrace_event ADD COLUMN payload BLOB;
ALTER TABLE headrace_event ADD COLUMN headers TEXT;
ALTER TABLE headrace_event ADD COLUMN claim INTEGER;
ALTER TABLE headrace_event ADD COLUMN claim_until REAL;
ALTER TABLE headrace_event ADD COLUMN claim_boot TEXT;
ALTER TABLE headrace_event ADD COLUMN published_at REAL;
CREATE INDEX headrace_event_unpublished ON headrace_event (id) WHERE published_at IS NULL;
CREATE INDEX headrace_event_key ON headrace_event (coalesce(key, job), id) WHERE published_at IS NULL;
CREATE INDEX headrace_event_published ON headrace_event (published_at) WHERE published_at IS NOT NULL AND job = '';

CREATE TABLE headrace_inbox (
    subscription TEXT NOT NULL,
    event_id TEXT NOT NULL,
    consumed_at REAL NOT NULL,
    PRIMARY KEY (subscription, event_id)
) WITHOUT ROWID, STRICT;
CREATE INDEX headrace_inbox_consumed ON headrace_inbox (consumed_at);

CREATE TABLE headrace_subscription (
    name TEXT PRIMARY KEY,
    patterns TEXT NOT NULL,
    deliveries_max INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

-- Written once. It goes when no delivery of it is left.
CREATE TABLE headrace_message (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id TEXT NOT NULL UNIQUE,
    topic TEXT NOT NULL,
    key TEXT NOT NULL,
    headers TEXT NOT NULL,
    happened_at REAL NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- state: 0 waiting, 1 waits until due_at, 2 held, 3 dealt with (kept to know a repeat), 4 dead.
-- suspect: its last consumer was lost with it, so it is delivered alone.
CREATE TABLE headrace_delivery (
    subscription TEXT NOT NULL,
    message INTEGER NOT NULL,
    state INTEGER NOT NULL DEFAULT 0,
    deliveries INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    suspect INTEGER NOT NULL DEFAULT 0,
    due_at REAL,
    consumer TEXT,
    fence INTEGER,
    until REAL,
    boot TEXT,
    reason TEXT,
    ended_at REAL,
    PRIMARY KEY (subscription, message)
) WITHOUT ROWID, STRICT;
CREATE INDEX headrace_delivery_waiting ON headrace_delivery (subscription, message) WHERE state = 0;
CREATE INDEX headrace_delivery_delayed ON headrace_delivery (subscription, due_at) WHERE state = 1;
CREATE INDEX headrace_delivery_held ON headrace_delivery (subscription, until) WHERE state = 2;
CREATE INDEX headrace_delivery_ended ON headrace_delivery (ended_at) WHERE state = 3;
CREATE INDEX headrace_delivery_dead ON headrace_delivery (subscription, message) WHERE state = 4;
CREATE INDEX headrace_delivery_message ON headrace_delivery (message);

CREATE TABLE headrace_ledger_account (
    name TEXT PRIMARY KEY,
    topic TEXT NOT NULL,
    headers TEXT NOT NULL,
    total INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    errors INTEGER NOT NULL DEFAULT 0,
    sealed INTEGER NOT NULL DEFAULT 0,
    opened_at REAL NOT NULL,
    finished_at REAL
) WITHOUT ROWID, STRICT;
CREATE INDEX headrace_ledger_account_finished ON headrace_ledger_account (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE headrace_ledger_source (
    account TEXT NOT NULL,
    source TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (account, source)
) WITHOUT ROWID, STRICT;

CREATE TABLE headrace_ledger_item (
    account TEXT NOT NULL,
    item TEXT NOT NULL,
    ok INTEGER NOT NULL,
    PRIMARY KEY (account, item)
) WITHOUT ROWID, STRICT;

-- A row is never deleted: its fence must be remembered for ever.
CREATE TABLE headrace_lease (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    fence INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    until REAL NOT NULL,
    boot TEXT NOT NULL
) WITHOUT ROWID, STRICT;
