-- creates: pm_folder_look
-- How the last looks at each folder went, whoever looked; failing_since and error are NULL after one that succeeded.
CREATE TABLE pm_folder_look (
    system_type TEXT NOT NULL,
    ftp_server_key TEXT NOT NULL,
    ftp_path TEXT NOT NULL,
    looked_at TEXT NOT NULL,
    listed_at TEXT,
    files INTEGER,
    failing_since TEXT,
    error TEXT,
    PRIMARY KEY (system_type, ftp_server_key, ftp_path)
);

-- creates: pm_clickhouse_seen
-- Since when ClickHouse shows all rows of a version. Without a row nobody was looking at the time.
CREATE TABLE pm_clickhouse_seen (
    version INTEGER NOT NULL PRIMARY KEY,
    seen_at TEXT NOT NULL
);
