-- name: folder_listed
INSERT INTO pm_folder_look (system_type, ftp_server_key, ftp_path, looked_at, listed_at, files)
VALUES (:system_type, :server_key, :path, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), :files)
ON DUPLICATE KEY UPDATE looked_at = VALUES(looked_at), listed_at = VALUES(listed_at), files = VALUES(files),
    failing_since = NULL, error = NULL

-- name: folder_failed
INSERT INTO pm_folder_look (system_type, ftp_server_key, ftp_path, looked_at, failing_since, error)
VALUES (:system_type, :server_key, :path, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), :error)
ON DUPLICATE KEY UPDATE looked_at = VALUES(looked_at), failing_since = COALESCE(failing_since, VALUES(failing_since)),
    error = VALUES(error)

-- name: folder_looks
SELECT system_type, ftp_server_key, ftp_path, looked_at, listed_at, files, failing_since, error FROM pm_folder_look

-- name: seen_add
-- Who saw it first counts; others look a moment later.
INSERT INTO pm_clickhouse_seen (version, seen_at) VALUES (:version, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE version = VALUES(version)

-- name: seen_forget
DELETE FROM pm_clickhouse_seen WHERE seen_at < UTC_TIMESTAMP(6) - INTERVAL :days DAY LIMIT 10000
