-- name: files_page
-- The newest first; the next page begins below the last id of the one before.
SELECT s.id, s.system_type, s.ftp_server_key, s.ftp_path, s.file_name, s.file_size, s.state,
       COALESCE(s.mysql_processed, FALSE) AS "m [bool]", COALESCE(s.clickhouse_processed, FALSE) AS "k [bool]",
       s.retry_count, s.max_retry, s.error_message, s.created_at, s.updated_at, s.download_start_time,
       s.download_end_time, s.parse_start_time, s.parse_end_time, s.mysql_insert_time, s.clickhouse_insert_time,
       s.file_moved_time, c.revision, IF(c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6), c.owner, NULL), c.due_at
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
 WHERE (:before IS NULL OR s.id < :before)
   AND (:state IS NULL OR s.state = :state)
   AND (:name_like IS NULL OR CONVERT(s.file_name USING utf8mb4) COLLATE utf8mb4_bin LIKE :name_like ESCAPE '!')
   AND (:server IS NULL OR s.ftp_server_key = :server)
   AND (:error_like IS NULL OR s.error_message LIKE :error_like ESCAPE '!')
 ORDER BY s.id DESC LIMIT :count_max

-- name: server_files
-- How many files each server has brought, when the last one was registered, and how many are errors.
SELECT system_type, ftp_server_key, COUNT(*), COALESCE(SUM(state = 'ERROR'), 0), MAX(created_at)
  FROM file_processing_state GROUP BY system_type, ftp_server_key ORDER BY system_type, ftp_server_key

-- name: live_holds
SELECT owner, COUNT(*) FROM pm_file_claim WHERE owner IS NOT NULL AND until > UTC_TIMESTAMP(6)
 GROUP BY owner ORDER BY owner
