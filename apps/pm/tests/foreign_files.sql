CREATE TABLE file_processing_state (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    system_type VARCHAR(20) NOT NULL, ftp_server_key VARCHAR(100) NOT NULL, ftp_path VARCHAR(500) NOT NULL,
    file_name VARCHAR(255) NOT NULL, file_size BIGINT, state VARCHAR(20) NOT NULL,
    mysql_processed BOOLEAN DEFAULT FALSE, clickhouse_processed BOOLEAN DEFAULT FALSE,
    download_start_time DATETIME, download_end_time DATETIME, parse_start_time DATETIME, parse_end_time DATETIME,
    mysql_insert_time DATETIME, clickhouse_insert_time DATETIME, file_moved_time DATETIME,
    error_message TEXT, retry_count INT DEFAULT 0, max_retry INT DEFAULT 3,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    UNIQUE KEY uk_file (system_type, ftp_server_key, ftp_path, file_name),
    INDEX idx_state (state, system_type), INDEX idx_updated (updated_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
