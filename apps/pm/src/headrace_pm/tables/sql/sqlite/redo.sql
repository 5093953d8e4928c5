-- name: redo_preview
SELECT s.state, COUNT(*), COALESCE(SUM(c.owner IS NOT NULL AND c.until > (SELECT now FROM pm_clock)), 0)
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
 WHERE TRUE
   AND (:ids IS NULL OR s.id IN (SELECT value FROM json_each(:ids)))
   AND (:name_glob IS NULL OR s.file_name GLOB :name_glob)
   AND (:created_from IS NULL OR s.created_at >= datetime(:created_from))
   AND (:created_until IS NULL OR s.created_at < datetime(:created_until))
   AND (:state IS NULL OR s.state = :state) AND (:system_type IS NULL OR s.system_type = :system_type)
 GROUP BY s.state ORDER BY s.state

-- name: redo_ids
SELECT s.id
  FROM file_processing_state s
 WHERE s.id > :after
   AND (:ids IS NULL OR s.id IN (SELECT value FROM json_each(:ids)))
   AND (:name_glob IS NULL OR s.file_name GLOB :name_glob)
   AND (:created_from IS NULL OR s.created_at >= datetime(:created_from))
   AND (:created_until IS NULL OR s.created_at < datetime(:created_until))
   AND (:state IS NULL OR s.state = :state) AND (:system_type IS NULL OR s.system_type = :system_type)
 ORDER BY s.id LIMIT :count_max

-- name: redo_judge
-- What somebody works on is left alone.
UPDATE pm_file_claim SET verdict = 'redo'
 WHERE file_id IN (SELECT value ->> 'id' FROM json_each(:files))
   AND (owner IS NULL OR until <= (SELECT now FROM pm_clock))

-- name: redo_judged
SELECT c.file_id FROM json_each(:files) j CROSS JOIN pm_file_claim c ON c.file_id = j.value ->> 'id'
 WHERE c.verdict = 'redo'

-- name: files_redo
UPDATE file_processing_state
   SET state = 'PENDING', retry_count = 0, error_message = NULL,
       mysql_processed = COALESCE(mysql_processed, FALSE) AND NOT :in_mysql,
       mysql_insert_time = iif(:in_mysql, NULL, mysql_insert_time),
       clickhouse_processed = COALESCE(clickhouse_processed, FALSE) AND NOT :in_kafka,
       clickhouse_insert_time = iif(:in_kafka, NULL, clickhouse_insert_time),
       download_start_time = NULL, download_end_time = NULL, parse_start_time = NULL, parse_end_time = NULL,
       file_moved_time = NULL
  FROM json_each(:files) j, pm_file_claim c
 WHERE c.file_id = j.value ->> 'id' AND file_processing_state.id = c.file_id AND c.verdict = 'redo'

-- name: sinks_redo
-- Whoever lost the file moves no checkpoint from here on, of neither sink.
UPDATE pm_file_sink
   SET next_batch = iif(iif(sink = 'mysql', :in_mysql, :in_kafka), 0, next_batch),
       "rows" = iif(iif(sink = 'mysql', :in_mysql, :in_kafka), 0, "rows"),
       digest = iif(iif(sink = 'mysql', :in_mysql, :in_kafka), '0', digest), epoch = c.epoch + 1
  FROM json_each(:files) j, pm_file_claim c
 WHERE c.file_id = j.value ->> 'id' AND pm_file_sink.file_id = c.file_id AND c.verdict = 'redo'

-- name: revisions_redo
-- Its age is counted from here, and it is not whole until its end.
UPDATE pm_file_revision SET seen_at = (SELECT now FROM pm_clock), is_whole = FALSE
  FROM json_each(:files) j, pm_file_claim c
 WHERE c.file_id = j.value ->> 'id' AND pm_file_revision.file_id = c.file_id
   AND pm_file_revision.revision = c.revision AND c.verdict = 'redo'

-- name: claims_redo
UPDATE pm_file_claim
   SET epoch = epoch + 1, left_as = 'PENDING', attempts = 0, is_permanent = FALSE,
       due_at = (SELECT now FROM pm_clock), losses = 0, crashes = 0, is_alone = FALSE, owner = NULL, until = NULL,
       ended = NULL, charged = NULL
 WHERE file_id IN (SELECT value ->> 'id' FROM json_each(:files)) AND verdict = 'redo'
