-- creates: file_processing_state
-- Keys are ascii (other characters are percent-encoded) and names binary without padding: so the unique key is a tree
-- of 1,640 bytes, and names that only look alike are different files.
CREATE TABLE file_processing_state (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    system_type VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    ftp_server_key VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    ftp_path VARCHAR(500) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    file_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */ NOT NULL,
    file_size BIGINT,
    state VARCHAR(20) NOT NULL,
    mysql_processed BOOLEAN DEFAULT FALSE,
    clickhouse_processed BOOLEAN DEFAULT FALSE,
    download_start_time DATETIME,
    download_end_time DATETIME,
    parse_start_time DATETIME,
    parse_end_time DATETIME,
    mysql_insert_time DATETIME,
    clickhouse_insert_time DATETIME,
    file_moved_time DATETIME,
    error_message TEXT,
    retry_count INT DEFAULT 0,
    max_retry INT DEFAULT 3,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    UNIQUE KEY uk_file (system_type, ftp_server_key, ftp_path, file_name),
    INDEX idx_state (state, system_type),
    INDEX idx_updated (updated_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4

-- creates: pm_file_revision
-- Every content that a name has had. Its version orders all rows that were ever read from a file.
CREATE TABLE pm_file_revision (
    version BIGINT AUTO_INCREMENT PRIMARY KEY,
    file_id BIGINT NOT NULL,
    revision INT NOT NULL,
    file_size BIGINT NOT NULL,
    modified VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    content_hash BINARY(16),
    seen_at DATETIME(6) NOT NULL,
    UNIQUE KEY uk_revision (file_id, revision)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4

-- creates: pm_file_claim
-- Who works on a file: owner, epoch, until. Losses are holds that passed, in a row; crashes those in which it ran alone.
CREATE TABLE pm_file_claim (
    file_id BIGINT NOT NULL PRIMARY KEY,
    owner VARCHAR(190) CHARACTER SET ascii COLLATE ascii_bin,
    epoch BIGINT NOT NULL DEFAULT 0,
    until DATETIME(6),
    request CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    ended VARCHAR(10) CHARACTER SET ascii COLLATE ascii_bin,
    due_at DATETIME(6),
    attempts INT NOT NULL DEFAULT 0,
    losses INT NOT NULL DEFAULT 0,
    crashes INT NOT NULL DEFAULT 0,
    is_alone BOOLEAN NOT NULL DEFAULT FALSE,
    revision INT NOT NULL DEFAULT 1,
    version BIGINT,
    spool VARCHAR(500),
    KEY pm_file_claim_until (until),
    KEY pm_file_claim_due (due_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4

-- creates: pm_file_sink
-- How far a file has come in each sink, and under which epoch it may go on.
CREATE TABLE pm_file_sink (
    file_id BIGINT NOT NULL,
    sink VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    epoch BIGINT NOT NULL,
    next_batch INT NOT NULL DEFAULT 0,
    "rows" BIGINT NOT NULL DEFAULT 0,
    digest BIGINT UNSIGNED NOT NULL DEFAULT 0,
    PRIMARY KEY (file_id, sink)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
