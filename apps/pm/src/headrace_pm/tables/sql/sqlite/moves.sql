-- name: files_to_move
-- Both sinks have them. What waits as PENDING was reset by somebody, whatever its flags say.
SELECT s.id
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
 WHERE s.state = :state AND s.mysql_processed AND s.clickhouse_processed
   AND (c.until IS NULL OR c.until <= (SELECT now FROM pm_clock))
   AND (c.due_at IS NULL OR c.due_at <= (SELECT now FROM pm_clock))
 ORDER BY s.id LIMIT :count_max

-- name: moves_take
-- Like a claim of a worker, which it excludes.
UPDATE pm_file_claim
   SET epoch = epoch + 1, ended = NULL, request = :request, owner = :owner,
       until = strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now', (:hold_us / 1000000.0) || ' seconds')
 WHERE file_id IN (SELECT value ->> 'id' FROM json_each(:files))
   AND (owner IS NULL OR until <= (SELECT now FROM pm_clock))
   AND EXISTS (SELECT 1 FROM file_processing_state s
                WHERE s.id = file_id AND s.mysql_processed AND s.clickhouse_processed
                  AND s.state IN ('COMPLETED', 'PARTIAL_DONE', 'PROCESSING'))

-- name: moves_sinks
UPDATE pm_file_sink SET epoch = c.epoch
  FROM json_each(:files) j, pm_file_claim c
 WHERE c.file_id = j.value ->> 'id' AND pm_file_sink.file_id = c.file_id AND c.request = :request

-- name: moves_read
SELECT c.file_id, c.epoch, s.system_type, s.ftp_server_key, s.ftp_path, s.file_name, c.revision, r.file_size,
       r.modified, r.fetched
  FROM json_each(:files) j CROSS JOIN pm_file_claim c ON c.file_id = j.value ->> 'id'
       JOIN file_processing_state s ON s.id = c.file_id
       JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE c.request = :request
 ORDER BY c.file_id

-- name: moves_renew
UPDATE pm_file_claim SET until = strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now', (:hold_us / 1000000.0) || ' seconds')
  FROM json_each(:files) j
 WHERE file_id = j.value ->> 'id' AND epoch = j.value ->> 'epoch'
   AND owner IS NOT NULL AND until > (SELECT now FROM pm_clock)

-- name: moves_judge
-- The holds that still stand get the verdict; what follows goes by it.
UPDATE pm_file_claim SET verdict = :verdict
  FROM json_each(:files) j
 WHERE file_id = j.value ->> 'id' AND epoch = j.value ->> 'epoch'
   AND owner IS NOT NULL AND until > (SELECT now FROM pm_clock)

-- name: moves_judged
SELECT c.file_id FROM json_each(:files) j CROSS JOIN pm_file_claim c ON c.file_id = j.value ->> 'id'
 WHERE c.epoch = j.value ->> 'epoch' AND c.verdict = :verdict

-- name: revisions_moved
UPDATE pm_file_revision SET archived_as = j.value ->> 'path', is_whole = TRUE
  FROM json_each(:files) j, pm_file_claim c
 WHERE c.file_id = j.value ->> 'id' AND pm_file_revision.file_id = c.file_id
   AND pm_file_revision.revision = c.revision AND c.verdict = 'moved'

-- name: files_moved
-- A row that somebody has reset meanwhile stays reset: its content is in the archive now.
UPDATE file_processing_state SET state = 'MOVED', file_moved_time = CURRENT_TIMESTAMP, error_message = NULL
  FROM json_each(:files) j, pm_file_claim c
 WHERE c.file_id = j.value ->> 'id' AND file_processing_state.id = c.file_id AND c.verdict = 'moved'
   AND mysql_processed AND clickhouse_processed AND state IN ('COMPLETED', 'PARTIAL_DONE', 'PROCESSING')

-- name: files_vanished
UPDATE file_processing_state SET state = 'ERROR', error_message = :reason
  FROM json_each(:files) j, pm_file_claim c
 WHERE c.file_id = j.value ->> 'id' AND file_processing_state.id = c.file_id AND c.verdict = 'vanished'
   AND state IN ('COMPLETED', 'PARTIAL_DONE', 'PROCESSING')

-- name: files_unmovable
UPDATE file_processing_state SET state = 'COMPLETED', error_message = :reason
  FROM json_each(:files) j, pm_file_claim c
 WHERE c.file_id = j.value ->> 'id' AND file_processing_state.id = c.file_id AND c.verdict = 'failed'
   AND state IN ('COMPLETED', 'PARTIAL_DONE', 'PROCESSING')

-- name: moves_end
UPDATE pm_file_claim
   SET left_as = :left_as, is_permanent = (:left_as = 'ERROR'),
       due_at = strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now', (:pause_us / 1000000.0) || ' seconds'),
       spool = NULL, owner = NULL, until = NULL, ended = 'settled'
 WHERE file_id IN (SELECT value ->> 'id' FROM json_each(:files)) AND verdict IS NOT NULL
