-- name: counts_by_state
SELECT state, COUNT(*) FROM file_processing_state GROUP BY state

-- name: ages_by_state
-- How long the oldest of a state has been known, of what has not ended.
SELECT s.state, MAX(TIMESTAMPDIFF(SECOND, COALESCE(r.seen_at, s.created_at), UTC_TIMESTAMP(6)))
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
       LEFT JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE s.state IN ('PENDING', 'DOWNLOADING', 'PARSING', 'PROCESSING', 'PARTIAL_DONE')
 GROUP BY s.state

-- name: ages_of_ends
-- COMPLETED waits for its move, an ERROR for people. Of each the file that was registered first: the index has it.
SELECT s.state, TIMESTAMPDIFF(SECOND, s.updated_at, UTC_TIMESTAMP(6))
  FROM (SELECT MIN(id) AS id FROM file_processing_state WHERE state IN ('COMPLETED', 'ERROR') GROUP BY state) f
       JOIN file_processing_state s ON s.id = f.id

-- name: count_stuck
SELECT COUNT(*)
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
       LEFT JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE s.state IN ('PENDING', 'DOWNLOADING', 'PARSING', 'PROCESSING', 'PARTIAL_DONE')
   AND (s.updated_at < UTC_TIMESTAMP() - INTERVAL :minutes MINUTE
        OR COALESCE(r.seen_at, s.created_at) < UTC_TIMESTAMP() - INTERVAL :minutes MINUTE)

-- name: error_messages
SELECT COALESCE(LEFT(error_message, 200), ''), COUNT(*), MAX(updated_at)
  FROM file_processing_state WHERE state = 'ERROR'
 GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT :count_max

-- name: sinks_behind
-- Files that are known and that a sink has not got.
SELECT COALESCE(SUM(NOT COALESCE(s.mysql_processed, FALSE)), 0),
       COALESCE(MAX(IF(s.mysql_processed, 0, TIMESTAMPDIFF(SECOND, COALESCE(r.seen_at, s.created_at), UTC_TIMESTAMP(6)))), 0),
       COALESCE(SUM(NOT COALESCE(s.clickhouse_processed, FALSE)), 0),
       COALESCE(MAX(IF(s.clickhouse_processed, 0, TIMESTAMPDIFF(SECOND, COALESCE(r.seen_at, s.created_at), UTC_TIMESTAMP(6)))), 0)
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
       LEFT JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE s.state IN ('PENDING', 'DOWNLOADING', 'PARSING', 'PROCESSING', 'PARTIAL_DONE')

-- name: files_finished
-- Files that both sinks have since then: how long that took since they were listed, and how much it was.
SELECT TIMESTAMPDIFF(SECOND, COALESCE(r.seen_at, s.created_at), GREATEST(s.mysql_insert_time, s.clickhouse_insert_time)),
       COALESCE(s.file_size, 0), COALESCE(r.counters, 0)
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
       LEFT JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE s.updated_at >= UTC_TIMESTAMP() - INTERVAL :minutes MINUTE AND s.state IN ('COMPLETED', 'MOVED')
   AND GREATEST(s.mysql_insert_time, s.clickhouse_insert_time) >= UTC_TIMESTAMP() - INTERVAL :minutes MINUTE
 ORDER BY s.updated_at DESC LIMIT :count_max
