-- name: silver_present
-- Whether the specification's queue is here, whether our own tables are and may be used, and whether we may make them.
SELECT to_regclass('task_q') IS NOT NULL,
       coalesce(has_table_privilege(to_regclass('silver_revision'), 'INSERT')
                AND has_table_privilege(to_regclass('silver_reject_day'), 'SELECT')
                AND has_table_privilege(to_regclass('silver_reject_day'), 'INSERT')
                AND has_table_privilege(to_regclass('silver_reject_day'), 'UPDATE'), false),
       coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)

-- name: silver_creating
-- Two that create the same table at the same time would meet in the catalogue.
SELECT pg_advisory_xact_lock(hashtext('silver_create'))

-- name: create_silver_revision
-- What a stored bar was before a batch overwrote it with other values.
CREATE TABLE IF NOT EXISTS silver_revision (
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
CREATE INDEX IF NOT EXISTS silver_revision_bar ON silver_revision (symbol, trade_date, id);

-- name: create_silver_reject_day
-- Rejects by rule and market day; an empty rule_id stands for none.
CREATE TABLE IF NOT EXISTS silver_reject_day (
  day DATE NOT NULL,
  reason TEXT NOT NULL,
  rule_id TEXT NOT NULL,
  count BIGINT NOT NULL,
  PRIMARY KEY (day, reason, rule_id)
);
