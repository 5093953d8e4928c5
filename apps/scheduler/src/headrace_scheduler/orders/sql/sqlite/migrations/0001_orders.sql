-- Amounts are whole VND. A fence is the token of the run that wrote the row.
CREATE TABLE orders (
    order_id text PRIMARY KEY NOT NULL,
    customer_id text NOT NULL,
    status text NOT NULL,
    total integer NOT NULL,
    failure text,
    created_at text NOT NULL
);

CREATE TABLE order_items (
    order_id text NOT NULL REFERENCES orders (order_id),
    line integer NOT NULL,
    sku text NOT NULL,
    quantity integer NOT NULL,
    price integer NOT NULL,
    PRIMARY KEY (order_id, line)
);

CREATE TABLE inventory (
    sku text PRIMARY KEY NOT NULL,
    stock integer NOT NULL CHECK (stock >= 0),
    price integer NOT NULL,
    version integer NOT NULL,
    withdrawn boolean NOT NULL DEFAULT false
);

CREATE TABLE payments (
    order_id text PRIMARY KEY NOT NULL REFERENCES orders (order_id),
    idempotency_key text NOT NULL UNIQUE,
    amount integer NOT NULL,
    fence integer NOT NULL,
    paid_at text NOT NULL
);

CREATE TABLE shipments (
    order_id text PRIMARY KEY NOT NULL REFERENCES orders (order_id),
    fence integer NOT NULL,
    shipped_at text NOT NULL
);

CREATE TABLE refunds (
    order_id text PRIMARY KEY NOT NULL REFERENCES orders (order_id),
    idempotency_key text NOT NULL UNIQUE,
    amount integer NOT NULL,
    fence integer NOT NULL,
    refunded_at text NOT NULL
);

-- The highest token of each job whose run has begun here.
CREATE TABLE sink_fences (
    resource text PRIMARY KEY NOT NULL,
    fence integer NOT NULL
);
