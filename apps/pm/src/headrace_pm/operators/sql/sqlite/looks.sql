-- name: folder_listed
INSERT INTO pm_folder_look (system_type, ftp_server_key, ftp_path, looked_at, listed_at, files)
VALUES (:system_type, :server_key, :path, (SELECT now FROM pm_clock), (SELECT now FROM pm_clock), :files)
ON CONFLICT DO UPDATE SET looked_at = excluded.looked_at, listed_at = excluded.listed_at, files = excluded.files,
    failing_since = NULL, error = NULL

-- name: folder_failed
INSERT INTO pm_folder_look (system_type, ftp_server_key, ftp_path, looked_at, failing_since, error)
VALUES (:system_type, :server_key, :path, (SELECT now FROM pm_clock), (SELECT now FROM pm_clock), :error)
ON CONFLICT DO UPDATE SET looked_at = excluded.looked_at,
    failing_since = COALESCE(failing_since, excluded.failing_since), error = excluded.error

-- name: folder_looks
SELECT system_type, ftp_server_key, ftp_path, looked_at AS "looked [time]", listed_at AS "listed [time]", files,
       failing_since AS "failing [time]", error
  FROM pm_folder_look

-- name: seen_add
-- Who saw it first counts; others look a moment later.
INSERT INTO pm_clickhouse_seen (version, seen_at) VALUES (:version, (SELECT now FROM pm_clock))
ON CONFLICT DO NOTHING

-- name: seen_forget
DELETE FROM pm_clickhouse_seen WHERE julianday(seen_at) < julianday('now') - :days
