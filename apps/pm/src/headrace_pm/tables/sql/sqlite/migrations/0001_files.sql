-- creates: file_processing_state
-- Times are UTC as SQLite itself writes them, so that other programs may compare them.
CREATE TABLE file_processing_state (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    system_type TEXT NOT NULL,
    ftp_server_key TEXT NOT NULL,
    ftp_path TEXT NOT NULL,
    file_name TEXT NOT NULL,
    file_size INTEGER,
    state TEXT NOT NULL,
    mysql_processed BOOLEAN DEFAULT FALSE,
    clickhouse_processed BOOLEAN DEFAULT FALSE,
    download_start_time TEXT,
    download_end_time TEXT,
    parse_start_time TEXT,
    parse_end_time TEXT,
    mysql_insert_time TEXT,
    clickhouse_insert_time TEXT,
    file_moved_time TEXT,
    error_message TEXT,
    retry_count INTEGER DEFAULT 0,
    max_retry INTEGER DEFAULT 3,
    created_at TEXT DEFAULT CURRENT_TIMESTAMP,
    updated_at TEXT DEFAULT CURRENT_TIMESTAMP
);
CREATE UNIQUE INDEX uk_file ON file_processing_state (system_type, ftp_server_key, ftp_path, file_name);
CREATE INDEX idx_state ON file_processing_state (state, system_type);
CREATE INDEX idx_updated ON file_processing_state (updated_at);
-- As ON UPDATE CURRENT_TIMESTAMP has it: a change that says nothing of the time has this one.
CREATE TRIGGER pm_file_updated AFTER UPDATE ON file_processing_state
  WHEN NEW.updated_at IS OLD.updated_at AND OLD.updated_at IS NOT CURRENT_TIMESTAMP
BEGIN
    UPDATE file_processing_state SET updated_at = CURRENT_TIMESTAMP WHERE id = NEW.id;
END;

-- creates: pm_file_revision
-- A version that was taken back is never given again.
CREATE TABLE pm_file_revision (
    version INTEGER PRIMARY KEY AUTOINCREMENT,
    file_id INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    file_size INTEGER NOT NULL,
    modified TEXT NOT NULL,
    content_hash BLOB,
    seen_at TEXT NOT NULL,
    UNIQUE (file_id, revision)
);

-- creates: pm_file_claim
CREATE TABLE pm_file_claim (
    file_id INTEGER NOT NULL PRIMARY KEY,
    owner TEXT,
    epoch INTEGER NOT NULL DEFAULT 0,
    until TEXT,
    request TEXT,
    ended TEXT,
    due_at TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    losses INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    is_alone BOOLEAN NOT NULL DEFAULT FALSE,
    revision INTEGER NOT NULL DEFAULT 1,
    spool TEXT
);
CREATE INDEX pm_file_claim_until ON pm_file_claim (until);

-- creates: pm_file_sink
-- A digest has 64 bits without a sign, which SQLite has not: it is text.
CREATE TABLE pm_file_sink (
    file_id INTEGER NOT NULL,
    sink TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    next_batch INTEGER NOT NULL DEFAULT 0,
    "rows" INTEGER NOT NULL DEFAULT 0,
    digest TEXT NOT NULL DEFAULT '0',
    PRIMARY KEY (file_id, sink)
);
