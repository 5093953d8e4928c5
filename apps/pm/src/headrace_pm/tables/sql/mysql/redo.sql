-- name: redo_preview
SELECT s.state, COUNT(*), COALESCE(SUM(c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)), 0)
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
 WHERE (:ids IS NULL OR s.id IN (SELECT j.id FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id BIGINT PATH '$')) j))
   AND (:name_like IS NULL OR CONVERT(s.file_name USING utf8mb4) COLLATE utf8mb4_bin LIKE :name_like ESCAPE '!')
   AND (:created_from IS NULL OR s.created_at >= :created_from)
   AND (:created_until IS NULL OR s.created_at < :created_until)
   AND (:state IS NULL OR s.state = :state) AND (:system_type IS NULL OR s.system_type = :system_type)
 GROUP BY s.state ORDER BY s.state

-- name: redo_ids
SELECT s.id
  FROM file_processing_state s
 WHERE s.id > :after
   AND (:ids IS NULL OR s.id IN (SELECT j.id FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id BIGINT PATH '$')) j))
   AND (:name_like IS NULL OR CONVERT(s.file_name USING utf8mb4) COLLATE utf8mb4_bin LIKE :name_like ESCAPE '!')
   AND (:created_from IS NULL OR s.created_at >= :created_from)
   AND (:created_until IS NULL OR s.created_at < :created_until)
   AND (:state IS NULL OR s.state = :state) AND (:system_type IS NULL OR s.system_type = :system_type)
 ORDER BY s.id LIMIT :count_max

-- name: redo_judge
-- What somebody works on is left alone.
UPDATE pm_file_claim c JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = c.file_id
   SET c.verdict = 'redo'
 WHERE c.owner IS NULL OR c.until <= UTC_TIMESTAMP(6)

-- name: redo_judged
SELECT c.file_id FROM JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j
  JOIN pm_file_claim c ON c.file_id = j.id
 WHERE c.verdict = 'redo'

-- name: files_redo
UPDATE file_processing_state s JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = s.id
       JOIN pm_file_claim c ON c.file_id = s.id
   SET s.state = 'PENDING', s.retry_count = 0, s.error_message = NULL,
       s.mysql_processed = COALESCE(s.mysql_processed, FALSE) AND NOT :in_mysql,
       s.mysql_insert_time = IF(:in_mysql, NULL, s.mysql_insert_time),
       s.clickhouse_processed = COALESCE(s.clickhouse_processed, FALSE) AND NOT :in_kafka,
       s.clickhouse_insert_time = IF(:in_kafka, NULL, s.clickhouse_insert_time),
       s.download_start_time = NULL, s.download_end_time = NULL, s.parse_start_time = NULL, s.parse_end_time = NULL,
       s.file_moved_time = NULL
 WHERE c.verdict = 'redo'

-- name: sinks_redo
-- Whoever lost the file moves no checkpoint from here on, of neither sink.
UPDATE pm_file_sink k JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = k.file_id
       JOIN pm_file_claim c ON c.file_id = k.file_id
   SET k.next_batch = IF(IF(k.sink = 'mysql', :in_mysql, :in_kafka), 0, k.next_batch),
       k."rows" = IF(IF(k.sink = 'mysql', :in_mysql, :in_kafka), 0, k."rows"),
       k.digest = IF(IF(k.sink = 'mysql', :in_mysql, :in_kafka), 0, k.digest), k.epoch = c.epoch + 1
 WHERE c.verdict = 'redo'

-- name: revisions_redo
-- Its age is counted from here, and it is not whole until its end.
UPDATE pm_file_revision r JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = r.file_id
       JOIN pm_file_claim c ON c.file_id = r.file_id AND c.revision = r.revision
   SET r.seen_at = UTC_TIMESTAMP(6), r.is_whole = FALSE
 WHERE c.verdict = 'redo'

-- name: claims_redo
UPDATE pm_file_claim c JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = c.file_id
   SET c.epoch = c.epoch + 1, c.left_as = 'PENDING', c.attempts = 0, c.is_permanent = FALSE,
       c.due_at = UTC_TIMESTAMP(6), c.losses = 0, c.crashes = 0, c.is_alone = FALSE, c.owner = NULL, c.until = NULL,
       c.ended = NULL, c.charged = NULL
 WHERE c.verdict = 'redo'
