-- name: files_latency
-- From the first listing of a revision to its rows in both sinks.
SELECT unixepoch(max(s.mysql_insert_time, s.clickhouse_insert_time)) - unixepoch(r.seen_at)
  FROM json_each(:ids) j JOIN file_processing_state s ON s.id = j.value
       JOIN pm_file_claim c ON c.file_id = s.id
       JOIN pm_file_revision r ON r.file_id = s.id AND r.revision = c.revision
 WHERE s.mysql_insert_time IS NOT NULL AND s.clickhouse_insert_time IS NOT NULL

-- name: files_sent
-- What the second sink has got lately, each by the version of its newest revision.
SELECT r.version, k."rows", k.digest, unixepoch('now') - unixepoch(s.clickhouse_insert_time)
  FROM file_processing_state s JOIN pm_file_claim c ON c.file_id = s.id
       JOIN pm_file_revision r ON r.file_id = s.id AND r.revision = c.revision
       JOIN pm_file_sink k ON k.file_id = s.id AND k.sink = 'kafka'
 WHERE s.updated_at >= datetime('now', -:since_s || ' seconds') AND s.clickhouse_processed AND k."rows" > 0
   AND s.clickhouse_insert_time IS NOT NULL AND r.version > :after
 ORDER BY r.version LIMIT :count_max

-- name: versions_current
SELECT r.version
  FROM json_each(:versions) j JOIN pm_file_revision r ON r.version = j.value
       JOIN pm_file_claim c ON c.file_id = r.file_id AND c.revision = r.revision
