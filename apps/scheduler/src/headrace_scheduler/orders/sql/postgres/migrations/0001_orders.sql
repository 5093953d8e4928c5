-- Amounts are whole VND. A fence is the token of the run that wrote the row.
CREATE TABLE orders (
    order_id text PRIMARY KEY NOT NULL,
    customer_id text NOT NULL,
    status text NOT NULL,
    total bigint NOT NULL,
    failure text,
    created_at timestamptz NOT NULL
);

CREATE TABLE order_items (
    order_id text NOT NULL REFERENCES orders (order_id),
    line integer NOT NULL,
    sku text NOT NULL,
    quantity integer NOT NULL,
    price bigint NOT NULL,
    PRIMARY KEY (order_id, line)
);

CREATE TABLE inventory (
    sku text PRIMARY KEY NOT NULL,
    stock bigint NOT NULL CHECK (stock >= 0),
    price bigint NOT NULL,
    version bigint NOT NULL,
    withdrawn boolean NOT NULL DEFAULT false
);

CREATE TABLE payments (
    order_id text PRIMARY KEY NOT NULL REFERENCES orders (order_id),
    idempotency_key text NOT NULL UNIQUE,
    amount bigint NOT NULL,
    fence bigint NOT NULL,
    paid_at timestamptz NOT NULL
);

CREATE TABLE shipments (
    order_id text PRIMARY KEY NOT NULL REFERENCES orders (order_id),
    fence bigint NOT NULL,
    shipped_at timestamptz NOT NULL
);

CREATE TABLE refunds (
    order_id text PRIMARY KEY NOT NULL REFERENCES orders (order_id),
    idempotency_key text NOT NULL UNIQUE,
    amount bigint NOT NULL,
    fence bigint NOT NULL,
    refunded_at timestamptz NOT NULL
);

-- The highest token of each job whose run has begun here.
CREATE TABLE sink_fences (
    resource text PRIMARY KEY NOT NULL,
    fence bigint NOT NULL
);
