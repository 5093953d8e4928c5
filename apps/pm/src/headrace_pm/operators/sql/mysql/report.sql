-- name: report_states
-- In which state the files are that were first seen in each step.
SELECT TIMESTAMPDIFF(SECOND, '1970-01-01', created_at) DIV :step_s, state, COUNT(*)
  FROM file_processing_state WHERE created_at >= :first AND created_at < :end
 GROUP BY 1, 2

-- name: report_latency
-- From when a revision was first listed until its rows were in a sink; times of the table are whole seconds, so the
-- counts by seconds are exact. What is 'both' was in the slower one; 'clickhouse' are those that were seen there while
-- somebody looked.
WITH done AS (
    SELECT COALESCE(r.seen_at, s.created_at) AS seen_at, s.mysql_insert_time AS m, s.clickhouse_insert_time AS k,
           e.seen_at AS e
      FROM file_processing_state s
      LEFT JOIN pm_file_claim c ON c.file_id = s.id
      LEFT JOIN pm_file_revision r ON r.file_id = s.id AND r.revision = c.revision
      LEFT JOIN pm_clickhouse_seen e ON e.version = r.version
     WHERE s.created_at < :end AND (s.mysql_insert_time >= :first OR s.clickhouse_insert_time >= :first)
), ended AS (
    SELECT 'mysql' AS sink, seen_at, m AS at FROM done WHERE m >= :first AND m < :end
    UNION ALL
    SELECT 'kafka', seen_at, k FROM done WHERE k >= :first AND k < :end
    UNION ALL
    SELECT 'clickhouse', seen_at, e FROM done WHERE e >= :first AND e < :end
    UNION ALL
    SELECT 'both', seen_at, GREATEST(m, k) FROM done WHERE GREATEST(m, k) >= :first AND GREATEST(m, k) < :end
)
SELECT TIMESTAMPDIFF(SECOND, '1970-01-01', at) DIV :step_s, sink,
       GREATEST(0, TIMESTAMPDIFF(SECOND, seen_at, at)) AS seconds, COUNT(*)
  FROM ended GROUP BY 1, 2, 3

-- name: report_errors
SELECT COALESCE(error_message, ''), state, COUNT(*), MIN(updated_at), MAX(updated_at), MAX(file_name)
  FROM file_processing_state
 WHERE error_message IS NOT NULL AND updated_at >= :first AND updated_at < :end
 GROUP BY 1, 2 ORDER BY 3 DESC LIMIT :count_max
