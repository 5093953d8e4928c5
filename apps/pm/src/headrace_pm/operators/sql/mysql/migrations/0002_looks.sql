-- creates: pm_folder_look
-- How the last looks at each folder went, whoever looked; failing_since and error are NULL after one that succeeded.
CREATE TABLE pm_folder_look (
    system_type VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    ftp_server_key VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    ftp_path VARCHAR(500) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    looked_at DATETIME(6) NOT NULL,
    listed_at DATETIME(6),
    files INT,
    failing_since DATETIME(6),
    error VARCHAR(500),
    PRIMARY KEY (system_type, ftp_server_key, ftp_path)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4

-- creates: pm_clickhouse_seen
-- Since when ClickHouse shows all rows of a version. Without a row nobody was looking at the time.
CREATE TABLE pm_clickhouse_seen (
    version BIGINT NOT NULL PRIMARY KEY,
    seen_at DATETIME(6) NOT NULL,
    KEY idx_seen_at (seen_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
