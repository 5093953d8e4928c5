-- name: files_page
-- The newest first; the next page begins below the last id of the one before.
SELECT s.id, s.system_type, s.ftp_server_key, s.ftp_path, s.file_name, s.file_size, s.state,
       COALESCE(s.mysql_processed, FALSE) AS "m [bool]", COALESCE(s.clickhouse_processed, FALSE) AS "k [bool]",
       s.retry_count, s.max_retry, s.error_message,
       datetime(s.created_at) || '+00:00' AS "t1 [time]", datetime(s.updated_at) || '+00:00' AS "t2 [time]",
       datetime(s.download_start_time) || '+00:00' AS "t3 [time]",
       datetime(s.download_end_time) || '+00:00' AS "t4 [time]",
       datetime(s.parse_start_time) || '+00:00' AS "t5 [time]", datetime(s.parse_end_time) || '+00:00' AS "t6 [time]",
       datetime(s.mysql_insert_time) || '+00:00' AS "t7 [time]",
       datetime(s.clickhouse_insert_time) || '+00:00' AS "t8 [time]",
       datetime(s.file_moved_time) || '+00:00' AS "t9 [time]", c.revision,
       iif(c.owner IS NOT NULL AND c.until > (SELECT now FROM pm_clock), c.owner, NULL), c.due_at AS "due [time]"
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
 WHERE (:before IS NULL OR s.id < :before)
   AND (:state IS NULL OR s.state = :state)
   AND (:name_glob IS NULL OR s.file_name GLOB :name_glob)
   AND (:server IS NULL OR s.ftp_server_key = :server)
   AND (:error_like IS NULL OR s.error_message LIKE :error_like ESCAPE '!')
 ORDER BY s.id DESC LIMIT :count_max

-- name: server_files
-- How many files each server has brought, when the last one was registered, and how many are errors.
SELECT system_type, ftp_server_key, COUNT(*), COALESCE(SUM(state = 'ERROR'), 0),
       datetime(MAX(created_at)) || '+00:00' AS "last [time]"
  FROM file_processing_state GROUP BY system_type, ftp_server_key ORDER BY system_type, ftp_server_key

-- name: live_holds
SELECT owner, COUNT(*) FROM pm_file_claim WHERE owner IS NOT NULL AND until > (SELECT now FROM pm_clock)
 GROUP BY owner ORDER BY owner
