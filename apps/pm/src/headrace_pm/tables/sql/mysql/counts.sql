-- name: counts_by_state
-- All but those that are done with, which are nearly all rows there are.
SELECT state, COUNT(*) FROM file_processing_state WHERE state < 'MOVED' OR state > 'MOVED' GROUP BY state

-- name: count_moved
SELECT COUNT(*) FROM file_processing_state WHERE state = 'MOVED'

-- name: files_examined
-- Of one state the files that were registered first, so that a long backlog is not read as a whole: how many, how long
-- the oldest has been known, how many are stuck, and of each sink how many it has not got and for how long.
-- What was never read and says why waits for its upload or its server, and not for a sink.
SELECT COUNT(*), COALESCE(MAX(w.age), 0), COALESCE(SUM(w.is_stuck), 0),
       COALESCE(SUM(NOT w.in_mysql AND w.is_here), 0), COALESCE(MAX(IF(w.in_mysql OR NOT w.is_here, 0, w.age)), 0),
       COALESCE(SUM(NOT w.in_kafka AND w.is_here), 0), COALESCE(MAX(IF(w.in_kafka OR NOT w.is_here, 0, w.age)), 0)
  FROM (SELECT TIMESTAMPDIFF(SECOND, COALESCE(r.seen_at, s.created_at), UTC_TIMESTAMP(6)) AS age,
               LEAST(s.updated_at, COALESCE(r.seen_at, s.created_at)) < UTC_TIMESTAMP() - INTERVAL :minutes MINUTE
                   AS is_stuck,
               NOT (r.content_hash IS NULL AND s.error_message IS NOT NULL) AS is_here,
               COALESCE(s.mysql_processed, FALSE) AS in_mysql, COALESCE(s.clickhouse_processed, FALSE) AS in_kafka
          FROM (SELECT id FROM file_processing_state WHERE state = :state ORDER BY id LIMIT :count_max) f
               JOIN file_processing_state s ON s.id = f.id LEFT JOIN pm_file_claim c ON c.file_id = s.id
               LEFT JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision) w

-- name: ages_of_ends
-- COMPLETED waits for its move, an ERROR for people. Of each the file that was registered first: the index has it.
SELECT s.state, TIMESTAMPDIFF(SECOND, s.updated_at, UTC_TIMESTAMP(6))
  FROM (SELECT MIN(id) AS id FROM file_processing_state WHERE state IN ('COMPLETED', 'ERROR') GROUP BY state) f
       JOIN file_processing_state s ON s.id = f.id

-- name: error_messages
SELECT COALESCE(LEFT(error_message, 200), ''), COUNT(*), MAX(updated_at)
  FROM file_processing_state WHERE state = 'ERROR'
 GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT :count_max

-- name: files_finished
-- Files that both sinks have since then: how long that took since they were listed, and how much it was.
SELECT TIMESTAMPDIFF(SECOND, COALESCE(r.seen_at, s.created_at), GREATEST(s.mysql_insert_time, s.clickhouse_insert_time)),
       COALESCE(s.file_size, 0), COALESCE(r.counters, 0)
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
       LEFT JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE s.updated_at >= UTC_TIMESTAMP() - INTERVAL :minutes MINUTE AND s.state IN ('COMPLETED', 'MOVED')
   AND GREATEST(s.mysql_insert_time, s.clickhouse_insert_time) >= UTC_TIMESTAMP() - INTERVAL :minutes MINUTE
 ORDER BY s.updated_at DESC LIMIT :count_max
