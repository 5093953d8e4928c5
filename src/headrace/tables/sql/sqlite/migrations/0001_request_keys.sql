-- Requests with an Idempotency-Key; `status` is there when they are answered.
CREATE TABLE request_key (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    seed TEXT NOT NULL,
    holder TEXT,
    held_until TEXT NOT NULL,
    made_at TEXT NOT NULL,
    status INTEGER,
    headers TEXT,
    body BLOB,
    PRIMARY KEY (tenant, key)
) STRICT;

CREATE INDEX request_key_made ON request_key (made_at);
