-- name: counts_by_state
SELECT state, COUNT(*) FROM file_processing_state GROUP BY state

-- name: ages_by_state
-- How long the oldest of a state has been known, of what has not ended.
SELECT s.state, MAX(unixepoch('now') - unixepoch(COALESCE(r.seen_at, s.created_at)))
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
       LEFT JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE s.state IN ('PENDING', 'DOWNLOADING', 'PARSING', 'PROCESSING', 'PARTIAL_DONE')
 GROUP BY s.state

-- name: ages_of_ends
-- COMPLETED waits for its move, an ERROR for people. Of each the file that was registered first: the index has it.
SELECT s.state, unixepoch('now') - unixepoch(s.updated_at)
  FROM (SELECT MIN(id) AS id FROM file_processing_state WHERE state IN ('COMPLETED', 'ERROR') GROUP BY state) f
       JOIN file_processing_state s ON s.id = f.id

-- name: count_stuck
SELECT COUNT(*)
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
       LEFT JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE s.state IN ('PENDING', 'DOWNLOADING', 'PARSING', 'PROCESSING', 'PARTIAL_DONE')
   AND unixepoch('now') - min(unixepoch(s.updated_at), unixepoch(COALESCE(r.seen_at, s.created_at))) > 60 * :minutes

-- name: error_messages
SELECT COALESCE(substr(error_message, 1, 200), ''), COUNT(*), MAX(updated_at) || '+00:00' AS "last_at [time]"
  FROM file_processing_state WHERE state = 'ERROR'
 GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT :count_max

-- name: sinks_behind
-- Files that are known and that a sink has not got.
SELECT COALESCE(SUM(NOT COALESCE(s.mysql_processed, FALSE)), 0),
       COALESCE(MAX(iif(s.mysql_processed, 0, unixepoch('now') - unixepoch(COALESCE(r.seen_at, s.created_at)))), 0),
       COALESCE(SUM(NOT COALESCE(s.clickhouse_processed, FALSE)), 0),
       COALESCE(MAX(iif(s.clickhouse_processed, 0, unixepoch('now') - unixepoch(COALESCE(r.seen_at, s.created_at)))), 0)
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
       LEFT JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE s.state IN ('PENDING', 'DOWNLOADING', 'PARSING', 'PROCESSING', 'PARTIAL_DONE')

-- name: files_finished
-- Files that both sinks have since then: how long that took since they were listed, and how much it was.
SELECT unixepoch(max(s.mysql_insert_time, s.clickhouse_insert_time)) - unixepoch(COALESCE(r.seen_at, s.created_at)),
       COALESCE(s.file_size, 0), COALESCE(r.counters, 0)
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
       LEFT JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE s.updated_at >= datetime('now', -:minutes || ' minutes') AND s.state IN ('COMPLETED', 'MOVED')
   AND max(s.mysql_insert_time, s.clickhouse_insert_time) >= datetime('now', -:minutes || ' minutes')
 ORDER BY s.updated_at DESC LIMIT :count_max
