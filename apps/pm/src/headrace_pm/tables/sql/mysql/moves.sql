-- name: files_to_move
-- Both sinks have them. What waits as PENDING was reset by somebody, whatever its flags say.
SELECT s.id
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
 WHERE s.state = :state AND s.mysql_processed AND s.clickhouse_processed
   AND (c.until IS NULL OR c.until <= UTC_TIMESTAMP(6)) AND (c.due_at IS NULL OR c.due_at <= UTC_TIMESTAMP(6))
 ORDER BY s.id LIMIT :count_max

-- name: moves_take
-- Like a claim of a worker, which it excludes.
UPDATE pm_file_claim c JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = c.file_id
       JOIN file_processing_state s ON s.id = c.file_id
   SET c.epoch = c.epoch + 1, c.ended = NULL, c.request = :request, c.owner = :owner,
       c.until = UTC_TIMESTAMP(6) + INTERVAL :hold_us MICROSECOND
 WHERE (c.owner IS NULL OR c.until <= UTC_TIMESTAMP(6)) AND s.mysql_processed AND s.clickhouse_processed
   AND s.state IN ('COMPLETED', 'PARTIAL_DONE', 'PROCESSING')

-- name: moves_sinks
UPDATE pm_file_sink k JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = k.file_id
       JOIN pm_file_claim c ON c.file_id = k.file_id
   SET k.epoch = c.epoch
 WHERE c.request = :request

-- name: moves_read
SELECT c.file_id, c.epoch, s.system_type, s.ftp_server_key, s.ftp_path, s.file_name, c.revision, r.file_size, r.modified,
       r.fetched
  FROM JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j
       JOIN pm_file_claim c ON c.file_id = j.id JOIN file_processing_state s ON s.id = c.file_id
       JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE c.request = :request
 ORDER BY c.file_id

-- name: moves_renew
UPDATE pm_file_claim c
       JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id', epoch BIGINT PATH '$.epoch')) j ON j.id = c.file_id
   SET c.until = UTC_TIMESTAMP(6) + INTERVAL :hold_us MICROSECOND
 WHERE c.epoch = j.epoch AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)

-- name: moves_judge
-- The holds that still stand get the verdict; what follows goes by it.
UPDATE pm_file_claim c
       JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id', epoch BIGINT PATH '$.epoch')) j ON j.id = c.file_id
   SET c.verdict = :verdict
 WHERE c.epoch = j.epoch AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)

-- name: moves_judged
SELECT c.file_id FROM JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id', epoch BIGINT PATH '$.epoch')) j
  JOIN pm_file_claim c ON c.file_id = j.id
 WHERE c.epoch = j.epoch AND c.verdict = :verdict

-- name: revisions_moved
UPDATE pm_file_revision r
       JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id', path VARCHAR(1000) PATH '$.path')) j
            ON j.id = r.file_id
       JOIN pm_file_claim c ON c.file_id = r.file_id AND c.revision = r.revision
   SET r.archived_as = j.path, r.is_whole = TRUE
 WHERE c.verdict = 'moved'

-- name: files_moved
-- A row that somebody has reset meanwhile stays reset: its content is in the archive now.
UPDATE file_processing_state s JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = s.id
       JOIN pm_file_claim c ON c.file_id = s.id
   SET s.state = 'MOVED', s.file_moved_time = UTC_TIMESTAMP(), s.error_message = NULL
 WHERE c.verdict = 'moved' AND s.mysql_processed AND s.clickhouse_processed
   AND s.state IN ('COMPLETED', 'PARTIAL_DONE', 'PROCESSING')

-- name: files_vanished
UPDATE file_processing_state s JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = s.id
       JOIN pm_file_claim c ON c.file_id = s.id
   SET s.state = 'ERROR', s.error_message = :reason
 WHERE c.verdict = 'vanished' AND s.state IN ('COMPLETED', 'PARTIAL_DONE', 'PROCESSING')

-- name: files_unmovable
UPDATE file_processing_state s JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = s.id
       JOIN pm_file_claim c ON c.file_id = s.id
   SET s.state = 'COMPLETED', s.error_message = :reason
 WHERE c.verdict = 'failed' AND s.state IN ('COMPLETED', 'PARTIAL_DONE', 'PROCESSING')

-- name: moves_end
UPDATE pm_file_claim c JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = c.file_id
   SET c.left_as = :left_as, c.is_permanent = (:left_as = 'ERROR'),
       c.due_at = UTC_TIMESTAMP(6) + INTERVAL :pause_us MICROSECOND,
       c.spool = NULL, c.owner = NULL, c.until = NULL, c.ended = 'settled'
 WHERE c.verdict IS NOT NULL
