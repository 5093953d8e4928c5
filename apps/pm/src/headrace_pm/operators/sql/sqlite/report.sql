-- name: report_states
-- In which state the files are that were first seen in each step.
SELECT unixepoch(created_at) / :step_s, state, COUNT(*)
  FROM file_processing_state WHERE unixepoch(created_at) >= unixepoch(:first) AND unixepoch(created_at) < unixepoch(:end)
 GROUP BY 1, 2

-- name: report_latency
-- From when a revision was first listed until its rows were in a sink; times of the table are whole seconds, so the
-- counts by seconds are exact. What is 'both' was in the slower one; 'clickhouse' are those that were seen there while
-- somebody looked.
WITH done AS (
    SELECT unixepoch(COALESCE(r.seen_at, s.created_at)) AS seen_at, unixepoch(s.mysql_insert_time) AS m,
           unixepoch(s.clickhouse_insert_time) AS k, unixepoch(e.seen_at) AS e
      FROM file_processing_state s
      LEFT JOIN pm_file_claim c ON c.file_id = s.id
      LEFT JOIN pm_file_revision r ON r.file_id = s.id AND r.revision = c.revision
      LEFT JOIN pm_clickhouse_seen e ON e.version = r.version
     WHERE s.mysql_insert_time IS NOT NULL OR s.clickhouse_insert_time IS NOT NULL
), ended AS (
    SELECT 'mysql' AS sink, seen_at, m AS at FROM done
    UNION ALL
    SELECT 'kafka', seen_at, k FROM done
    UNION ALL
    SELECT 'clickhouse', seen_at, e FROM done
    UNION ALL
    SELECT 'both', seen_at, max(m, k) FROM done
)
SELECT at / :step_s, sink, max(0, at - seen_at) AS seconds, COUNT(*)
  FROM ended WHERE at >= unixepoch(:first) AND at < unixepoch(:end)
 GROUP BY 1, 2, 3

-- name: report_errors
SELECT COALESCE(error_message, ''), state, COUNT(*), datetime(MIN(updated_at)) || '+00:00' AS "first [time]",
       datetime(MAX(updated_at)) || '+00:00' AS "last [time]", MAX(file_name)
  FROM file_processing_state
 WHERE error_message IS NOT NULL AND updated_at >= datetime(:first) AND updated_at < datetime(:end)
 GROUP BY 1, 2 ORDER BY 3 DESC LIMIT :count_max
