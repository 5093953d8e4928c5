-- name: files_latency
-- From the first listing of a revision to its rows in both sinks, whose times have whole seconds.
SELECT TIMESTAMPDIFF(SECOND, r.seen_at, GREATEST(s.mysql_insert_time, s.clickhouse_insert_time))
  FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id BIGINT PATH '$')) j JOIN file_processing_state s ON s.id = j.id
       JOIN pm_file_claim c ON c.file_id = s.id
       JOIN pm_file_revision r ON r.file_id = s.id AND r.revision = c.revision
 WHERE s.mysql_insert_time IS NOT NULL AND s.clickhouse_insert_time IS NOT NULL

-- name: files_sent
-- What brokers have acknowledged lately, each by the version of its newest revision: to be looked for in ClickHouse.
SELECT r.version, k."rows", k.digest, TIMESTAMPDIFF(SECOND, s.clickhouse_insert_time, UTC_TIMESTAMP())
  FROM file_processing_state s JOIN pm_file_claim c ON c.file_id = s.id
       JOIN pm_file_revision r ON r.file_id = s.id AND r.revision = c.revision
       JOIN pm_file_sink k ON k.file_id = s.id AND k.sink = 'kafka'
 WHERE s.updated_at >= UTC_TIMESTAMP() - INTERVAL :since_s SECOND AND s.clickhouse_processed AND k."rows" > 0
   AND s.clickhouse_insert_time IS NOT NULL AND r.version > :after
 ORDER BY r.version LIMIT :count_max

-- name: versions_current
SELECT r.version
  FROM JSON_TABLE(:versions, '$[*]' COLUMNS (version BIGINT PATH '$')) j JOIN pm_file_revision r ON r.version = j.version
       JOIN pm_file_claim c ON c.file_id = r.file_id AND c.revision = r.revision
