-- Requests with an Idempotency-Key; `status` is there when they are answered.
CREATE TABLE request_key (
    tenant text NOT NULL,
    key text NOT NULL,
    fingerprint text NOT NULL,
    seed text NOT NULL,
    holder text,
    held_until timestamptz NOT NULL,
    made_at timestamptz NOT NULL,
    status int,
    headers jsonb,
    body bytea,
    PRIMARY KEY (tenant, key)
);

CREATE INDEX request_key_made ON request_key (made_at);
