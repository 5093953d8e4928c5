-- The tables of the silver layer, as its specification names them. May be run again at any time: what is there stays.
-- The tables that headrace adds for itself (silver_*) are not here: the worker makes them when it may.

CREATE TABLE IF NOT EXISTS ta_silver (
  symbol TEXT NOT NULL,
  trade_date DATE NOT NULL,
  open DOUBLE PRECISION NOT NULL,
  high DOUBLE PRECISION NOT NULL,
  low DOUBLE PRECISION NOT NULL,
  close DOUBLE PRECISION NOT NULL,
  volume BIGINT NOT NULL,
  vwap DOUBLE PRECISION,
  adj_close DOUBLE PRECISION,
  currency TEXT NOT NULL DEFAULT 'VND',
  price_multiplier DOUBLE PRECISION NOT NULL DEFAULT 1.0,
  source TEXT,
  first_seen_time TIMESTAMPTZ,
  ingest_time TIMESTAMPTZ NOT NULL DEFAULT now(),
  content_hash TEXT,
  PRIMARY KEY (symbol, trade_date)
);

CREATE TABLE IF NOT EXISTS sa_silver (
  url_canonical TEXT UNIQUE NOT NULL,
  source_domain TEXT NOT NULL,
  publisher_time TIMESTAMPTZ NOT NULL,
  first_seen_time TIMESTAMPTZ NOT NULL,
  language TEXT,
  title TEXT,
  text_normalized TEXT,
  content_hash TEXT NOT NULL,
  symbols TEXT[],
  author TEXT,
  topic_tags TEXT[],
  hype_raw DOUBLE PRECISION,
  hype_crowd DOUBLE PRECISION,
  hype_elitist DOUBLE PRECISION,
  account_weights_applied BOOLEAN,
  ingest_time TIMESTAMPTZ NOT NULL DEFAULT now(),
  PRIMARY KEY (url_canonical)
);

CREATE INDEX IF NOT EXISTS idx_sa_silver_pub ON sa_silver (publisher_time);
CREATE INDEX IF NOT EXISTS idx_sa_silver_symbols ON sa_silver USING GIN (symbols);
CREATE INDEX IF NOT EXISTS idx_sa_silver_hash_fallback ON sa_silver (source_domain, content_hash);

CREATE TABLE IF NOT EXISTS task_q (
  id BIGSERIAL PRIMARY KEY,
  task_type TEXT NOT NULL,
  payload JSONB NOT NULL,
  status TEXT NOT NULL DEFAULT 'ready',
  priority INT NOT NULL DEFAULT 100,
  first_seen TIMESTAMPTZ NOT NULL DEFAULT now(),
  last_attempt TIMESTAMPTZ
);

CREATE INDEX IF NOT EXISTS idx_task_q_status ON task_q (status, priority, first_seen) WHERE status = 'ready';

CREATE TABLE IF NOT EXISTS task_q_dlq (
  id BIGSERIAL PRIMARY KEY,
  task_id BIGINT,
  reason TEXT NOT NULL,
  rule_id TEXT,
  payload JSONB,
  error_msg TEXT,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS control_flags (
  name TEXT PRIMARY KEY,
  value BOOLEAN NOT NULL,
  updated_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
