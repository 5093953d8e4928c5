-- creates: silver_revision
-- What a stored bar was before a batch overwrote it with other values.
CREATE TABLE silver_revision (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  symbol TEXT NOT NULL,
  trade_date DATE NOT NULL,
  open DOUBLE PRECISION NOT NULL,
  high DOUBLE PRECISION NOT NULL,
  low DOUBLE PRECISION NOT NULL,
  close DOUBLE PRECISION NOT NULL,
  volume BIGINT NOT NULL,
  vwap DOUBLE PRECISION,
  adj_close DOUBLE PRECISION,
  currency TEXT NOT NULL,
  price_multiplier DOUBLE PRECISION NOT NULL,
  source TEXT,
  first_seen_time TIMESTAMPTZ,
  ingest_time TIMESTAMPTZ NOT NULL,
  content_hash TEXT,
  replaced_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- creates: silver_revision_bar
CREATE INDEX silver_revision_bar ON silver_revision (symbol, trade_date, id);

-- creates: silver_reject_day
-- Rejects by rule and market day; an empty rule_id stands for none.
CREATE TABLE silver_reject_day (
  day DATE NOT NULL,
  reason TEXT NOT NULL,
  rule_id TEXT NOT NULL,
  count BIGINT NOT NULL,
  PRIMARY KEY (day, reason, rule_id)
);

-- creates: silver_redrive
-- Which letters were given another passage: the key is what keeps one from being redriven twice.
CREATE TABLE silver_redrive (
  letter_id BIGINT PRIMARY KEY,
  task_id BIGINT,
  redriven_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
