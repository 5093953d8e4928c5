-- name: silver_present
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'task_q') AS "queue [bool]"

-- name: create_silver_revision
-- What a stored bar was before a batch overwrote it with other values.
CREATE TABLE IF NOT EXISTS silver_revision (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  symbol TEXT NOT NULL,
  trade_date TEXT NOT NULL,
  open REAL NOT NULL,
  high REAL NOT NULL,
  low REAL NOT NULL,
  close REAL NOT NULL,
  volume INTEGER NOT NULL,
  vwap REAL,
  adj_close REAL,
  currency TEXT NOT NULL,
  price_multiplier REAL NOT NULL,
  source TEXT,
  first_seen_time TEXT,
  ingest_time TEXT NOT NULL,
  content_hash TEXT,
  replaced_at TEXT NOT NULL DEFAULT ({now}) CHECK ({is_time(replaced_at)})
) STRICT;
CREATE INDEX IF NOT EXISTS silver_revision_bar ON silver_revision (symbol, trade_date, id);

-- name: create_silver_reject_day
-- Rejects by rule and market day; an empty rule_id stands for none.
CREATE TABLE IF NOT EXISTS silver_reject_day (
  day TEXT NOT NULL,
  reason TEXT NOT NULL,
  rule_id TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (day, reason, rule_id)
) STRICT, WITHOUT ROWID;
