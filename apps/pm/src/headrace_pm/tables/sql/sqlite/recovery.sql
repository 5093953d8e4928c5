-- name: systems_ended
SELECT DISTINCT state, system_type FROM file_processing_state WHERE state IN ('ERROR', 'COMPLETED')

-- name: files_ended
SELECT id FROM file_processing_state
 WHERE state = :state AND system_type = :system_type AND id > :after ORDER BY id LIMIT :count_max

-- name: recover_downloading
-- Nobody of ours holds it, and whoever does takes too long. The row's own limit decides between again and never.
UPDATE file_processing_state
   SET error_message = iif(:state = 'PENDING', 'stuck in DOWNLOADING', 'stuck in DOWNLOADING, and no retry is left'),
       state = :state, retry_count = COALESCE(retry_count, 0) + (:state = 'PENDING')
 WHERE state = 'DOWNLOADING'
   AND NOT EXISTS (SELECT 1 FROM pm_file_claim c WHERE c.file_id = id AND c.owner IS NOT NULL)
   AND datetime(COALESCE(download_start_time, updated_at)) < datetime('now', -:minutes || ' minutes')
   AND (COALESCE(retry_count, 0) < COALESCE(max_retry, 3)) = (:state = 'PENDING')

-- name: recover_parsing
UPDATE file_processing_state
   SET error_message = 'stuck in ' || :stuck || iif(:state = 'PENDING', '', ', and no retry is left'),
       state = :state, retry_count = COALESCE(retry_count, 0) + (:state = 'PENDING')
 WHERE state = :stuck
   AND NOT EXISTS (SELECT 1 FROM pm_file_claim c WHERE c.file_id = id AND c.owner IS NOT NULL)
   AND datetime(COALESCE(parse_start_time, updated_at)) < datetime('now', -:minutes || ' minutes')
   AND (COALESCE(retry_count, 0) < COALESCE(max_retry, 3)) = (:state = 'PENDING')

-- name: recover_errors
-- Errors that may heal, after a pause that doubles with every retry.
UPDATE file_processing_state
   SET state = 'PENDING'
 WHERE id IN (SELECT value ->> 'id' FROM json_each(:files))
   AND state = 'ERROR' AND COALESCE(retry_count, 0) < COALESCE(max_retry, 3)
   AND NOT EXISTS (SELECT 1 FROM pm_file_claim c WHERE c.file_id = file_processing_state.id
                      AND (c.until > (SELECT now FROM pm_clock) OR c.is_permanent OR c.crashes >= :crashes_max))
   AND unixepoch(updated_at) <= unixepoch('now')
       - min(:pause_s * (1 << min(COALESCE(retry_count, 0), 20)), :pause_s_max)

-- name: recover_elements
-- Their element is in the dictionary now.
UPDATE file_processing_state
   SET state = 'PENDING', retry_count = 0
 WHERE id IN (SELECT value ->> 'id' FROM json_each(:files)) AND state = 'ERROR' AND error_message LIKE 'Unknown NE: %'
   AND EXISTS (SELECT 1 FROM ne WHERE ne.name = substr(error_message, 13))
   AND NOT EXISTS (SELECT 1 FROM pm_file_claim c WHERE c.file_id = id AND c.until > (SELECT now FROM pm_clock))

-- name: recover_incomplete
-- Somebody took a flag back and left the state: nobody would move the file, and nobody would read it.
UPDATE file_processing_state
   SET state = 'PENDING'
 WHERE id IN (SELECT value ->> 'id' FROM json_each(:files))
   AND state = 'COMPLETED' AND NOT (COALESCE(mysql_processed, FALSE) AND COALESCE(clickhouse_processed, FALSE))
   AND NOT EXISTS (SELECT 1 FROM pm_file_claim c WHERE c.file_id = id AND c.until > (SELECT now FROM pm_clock))
   AND unixepoch(updated_at) <= unixepoch('now') - :pause_s
