-- name: systems_ended
-- A look at the first entry of each, as for those that wait.
SELECT DISTINCT state, system_type FROM file_processing_state WHERE state IN ('ERROR', 'COMPLETED')

-- name: files_ended
SELECT id FROM file_processing_state
 WHERE state = :state AND system_type = :system_type AND id > :after ORDER BY id LIMIT :count_max

-- name: recover_downloading
-- Nobody of ours holds it, and whoever does takes too long. The row's own limit decides between again and never.
UPDATE file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
   SET s.error_message = IF(COALESCE(s.retry_count, 0) < COALESCE(s.max_retry, 3), 'stuck in DOWNLOADING',
                            'stuck in DOWNLOADING, and no retry is left'),
       s.state = :state, s.retry_count = COALESCE(s.retry_count, 0) + (:state = 'PENDING')
 WHERE s.state = 'DOWNLOADING' AND c.owner IS NULL
   AND COALESCE(s.download_start_time, s.updated_at) < UTC_TIMESTAMP() - INTERVAL :minutes MINUTE
   AND (COALESCE(s.retry_count, 0) < COALESCE(s.max_retry, 3)) = (:state = 'PENDING')

-- name: recover_parsing
UPDATE file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
   SET s.error_message = IF(COALESCE(s.retry_count, 0) < COALESCE(s.max_retry, 3), CONCAT('stuck in ', :stuck),
                            CONCAT('stuck in ', :stuck, ', and no retry is left')),
       s.state = :state, s.retry_count = COALESCE(s.retry_count, 0) + (:state = 'PENDING')
 WHERE s.state = :stuck AND c.owner IS NULL
   AND COALESCE(s.parse_start_time, s.updated_at) < UTC_TIMESTAMP() - INTERVAL :minutes MINUTE
   AND (COALESCE(s.retry_count, 0) < COALESCE(s.max_retry, 3)) = (:state = 'PENDING')

-- name: recover_errors
-- Errors that may heal, after a pause that doubles with every retry.
UPDATE file_processing_state s JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = s.id
       LEFT JOIN pm_file_claim c ON c.file_id = s.id
   SET s.state = 'PENDING'
 WHERE s.state = 'ERROR' AND COALESCE(s.retry_count, 0) < COALESCE(s.max_retry, 3)
   AND (c.owner IS NULL OR c.until <= UTC_TIMESTAMP(6)) AND NOT COALESCE(c.is_permanent, FALSE)
   AND COALESCE(c.crashes, 0) < :crashes_max
   AND s.updated_at <= UTC_TIMESTAMP() - INTERVAL LEAST(:pause_s * POW(2, LEAST(COALESCE(s.retry_count, 0), 20)),
                                                        :pause_s_max) SECOND

-- name: recover_elements
-- Their element is in the dictionary now.
UPDATE file_processing_state s JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = s.id
       JOIN ne ON ne.name = SUBSTRING(s.error_message, 13) LEFT JOIN pm_file_claim c ON c.file_id = s.id
   SET s.state = 'PENDING', s.retry_count = 0
 WHERE s.state = 'ERROR' AND s.error_message LIKE 'Unknown NE: %'
   AND (c.owner IS NULL OR c.until <= UTC_TIMESTAMP(6))

-- name: recover_incomplete
-- Somebody took a flag back and left the state: nobody would move the file, and nobody would read it.
UPDATE file_processing_state s JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = s.id
       LEFT JOIN pm_file_claim c ON c.file_id = s.id
   SET s.state = 'PENDING'
 WHERE s.state = 'COMPLETED' AND NOT (COALESCE(s.mysql_processed, FALSE) AND COALESCE(s.clickhouse_processed, FALSE))
   AND (c.owner IS NULL OR c.until <= UTC_TIMESTAMP(6)) AND s.updated_at <= UTC_TIMESTAMP() - INTERVAL :pause_s SECOND
