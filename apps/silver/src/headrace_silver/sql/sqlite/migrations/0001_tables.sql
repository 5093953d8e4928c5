-- creates: ta_silver
-- The specification's tables for SQLite, whose types promise little: what PostgreSQL refuses is refused by CHECK.
-- A date is YYYY-MM-DD; a time is UTC with microseconds and +00:00, so that texts sort as times do; a list is JSON.
-- Keys are no longer than PostgreSQL indexes them without compression. Rows lie in the order in which they came:
-- in the order of the key, a batch with one day of all symbols would write every page of the table.
CREATE TABLE ta_silver (
  symbol TEXT NOT NULL CHECK (octet_length(symbol) <= 2688 AND instr(symbol, char(0)) = 0),
  trade_date TEXT NOT NULL CHECK (trade_date IS date(trade_date) AND trade_date >= '0001'),
  open REAL NOT NULL,
  high REAL NOT NULL,
  low REAL NOT NULL,
  close REAL NOT NULL,
  volume INTEGER NOT NULL,
  vwap REAL,
  adj_close REAL,
  currency TEXT NOT NULL DEFAULT 'VND' CHECK (instr(currency, char(0)) = 0),
  price_multiplier REAL NOT NULL DEFAULT 1.0,
  source TEXT CHECK (instr(source, char(0)) = 0),
  first_seen_time TEXT CHECK ({is_time(first_seen_time)}),
  ingest_time TEXT NOT NULL DEFAULT ({now}) CHECK ({is_time(ingest_time)}),
  content_hash TEXT CHECK (instr(content_hash, char(0)) = 0),
  PRIMARY KEY (symbol, trade_date)
) STRICT;

-- creates: sa_silver
-- Nothing here can index the members of a list, so one index of the specification is missing.
CREATE TABLE sa_silver (
  url_canonical TEXT NOT NULL PRIMARY KEY CHECK (octet_length(url_canonical) <= 2692
                                                 AND instr(url_canonical, char(0)) = 0),
  source_domain TEXT NOT NULL CHECK (instr(source_domain, char(0)) = 0),
  publisher_time TEXT NOT NULL CHECK ({is_time(publisher_time)}),
  first_seen_time TEXT NOT NULL CHECK ({is_time(first_seen_time)}),
  language TEXT CHECK (instr(language, char(0)) = 0),
  title TEXT CHECK (instr(title, char(0)) = 0),
  text_normalized TEXT CHECK (instr(text_normalized, char(0)) = 0),
  content_hash TEXT NOT NULL CHECK (instr(content_hash, char(0)) = 0),
  symbols TEXT CHECK (json_type(symbols) = 'array' AND {has_no_escaped_nul(symbols)}),
  author TEXT CHECK (instr(author, char(0)) = 0),
  topic_tags TEXT CHECK (json_type(topic_tags) = 'array' AND {has_no_escaped_nul(topic_tags)}),
  hype_raw REAL,
  hype_crowd REAL,
  hype_elitist REAL,
  account_weights_applied INTEGER CHECK (account_weights_applied IN (0, 1)),
  ingest_time TEXT NOT NULL DEFAULT ({now}) CHECK ({is_time(ingest_time)})
) STRICT;

-- creates: idx_sa_silver_pub
CREATE INDEX idx_sa_silver_pub ON sa_silver (publisher_time);

-- creates: idx_sa_silver_hash_fallback
CREATE INDEX idx_sa_silver_hash_fallback ON sa_silver (source_domain, content_hash);

-- creates: task_q
-- A number is never given twice, because letters remember the task by it.
CREATE TABLE task_q (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  task_type TEXT NOT NULL CHECK (instr(task_type, char(0)) = 0),
  payload TEXT NOT NULL CHECK (json_valid(payload) AND {has_no_escaped_nul(payload)}),
  status TEXT NOT NULL DEFAULT 'ready',
  priority INTEGER NOT NULL DEFAULT 100 CHECK (priority BETWEEN -2147483648 AND 2147483647),
  first_seen TEXT NOT NULL DEFAULT ({now}) CHECK ({is_time(first_seen)}),
  last_attempt TEXT CHECK ({is_time(last_attempt)})
) STRICT;

-- creates: idx_task_q_status
CREATE INDEX idx_task_q_status ON task_q (status, priority, first_seen) WHERE status = 'ready';

-- creates: task_q_dlq
CREATE TABLE task_q_dlq (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  task_id INTEGER,
  reason TEXT NOT NULL,
  rule_id TEXT,
  payload TEXT CHECK (json_valid(payload)),
  error_msg TEXT,
  created_at TEXT NOT NULL DEFAULT ({now}) CHECK ({is_time(created_at)})
) STRICT;

-- creates: control_flags
CREATE TABLE control_flags (
  name TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL CHECK (value IN (0, 1)),
  updated_at TEXT NOT NULL DEFAULT ({now}) CHECK ({is_time(updated_at)})
) STRICT;

-- creates: silver_revision
-- What a stored bar was before a batch overwrote it with other values.
CREATE TABLE silver_revision (
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

-- creates: silver_revision_bar
CREATE INDEX silver_revision_bar ON silver_revision (symbol, trade_date, id);

-- creates: silver_reject_day
-- Rejects by rule and market day; an empty rule_id stands for none.
CREATE TABLE silver_reject_day (
  day TEXT NOT NULL,
  reason TEXT NOT NULL,
  rule_id TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (day, reason, rule_id)
) STRICT, WITHOUT ROWID;

-- creates: silver_redrive
-- Which letters were given another passage: the key is what keeps one from being redriven twice.
CREATE TABLE silver_redrive (
  letter_id INTEGER PRIMARY KEY,
  task_id INTEGER,
  redriven_at TEXT NOT NULL DEFAULT ({now})
);
