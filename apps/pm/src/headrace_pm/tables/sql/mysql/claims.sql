-- name: files_waiting
-- Files that wait and are due, and those whose hold has passed. A count of retries that somebody has set makes a file
-- due at once. DOWNLOADING and PARSING without a claim of ours are other programs' work, for as long as they may take.
SELECT s.id
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
 WHERE (s.state IN ('PENDING', 'PARTIAL_DONE')
        OR (s.state IN ('DOWNLOADING', 'PARSING', 'PROCESSING') AND c.owner IS NOT NULL))
   AND (c.until IS NULL OR c.until <= UTC_TIMESTAMP(6))
   AND (c.due_at IS NULL OR c.due_at <= UTC_TIMESTAMP(6) OR c.attempts <> s.retry_count)
 ORDER BY s.id LIMIT :count_max

-- name: claim_begin
-- The row is there and locked from here on: what follows sees the newest of everything.
INSERT INTO pm_file_claim (file_id) VALUES (:id) ON DUPLICATE KEY UPDATE file_id = file_id

-- name: claim_take
-- A live hold of the same owner is the same hold. One that passed is a loss, and a crash if the file ran alone.
-- Assignments run from left to right: what they compare with is assigned last.
UPDATE pm_file_claim
   SET crashes = crashes + (owner IS NOT NULL AND is_alone AND until <= UTC_TIMESTAMP(6)),
       losses = losses + (owner IS NOT NULL AND until <= UTC_TIMESTAMP(6)),
       is_alone = is_alone AND owner IS NOT NULL AND until > UTC_TIMESTAMP(6),
       epoch = epoch + (owner IS NULL OR until <= UTC_TIMESTAMP(6)),
       ended = NULL,
       request = :request,
       owner = :owner,
       until = UTC_TIMESTAMP(6) + INTERVAL :hold_us MICROSECOND
 WHERE file_id = :id AND (owner IS NULL OR until <= UTC_TIMESTAMP(6) OR owner = :owner)
   AND EXISTS (SELECT 1 FROM file_processing_state s
                WHERE s.id = :id
                  AND (s.state IN ('PENDING', 'PARTIAL_DONE')
                       OR (s.state IN ('DOWNLOADING', 'PARSING', 'PROCESSING') AND pm_file_claim.owner IS NOT NULL))
                  AND (due_at IS NULL OR due_at <= UTC_TIMESTAMP(6) OR attempts <> s.retry_count))

-- name: claim_state
-- What the table says of a file that is held: it is on its way.
UPDATE file_processing_state
   SET state = 'DOWNLOADING', download_start_time = UTC_TIMESTAMP()
 WHERE id = :id AND state = 'PENDING'
   AND EXISTS (SELECT 1 FROM pm_file_claim c WHERE c.file_id = :id AND c.request = :request)

-- name: claim_sinks
-- From here on no earlier holder moves a checkpoint.
INSERT INTO pm_file_sink (file_id, sink, epoch)
SELECT file_id, :sink, epoch FROM pm_file_claim WHERE file_id = :id AND request = :request
ON DUPLICATE KEY UPDATE epoch = VALUES(epoch)

-- name: claim_read
SELECT c.epoch, s.retry_count, s.max_retry, c.losses, c.crashes, s.system_type, s.ftp_server_key, s.ftp_path,
       s.file_name, s.file_size, s.mysql_processed AS "m [bool]", s.clickhouse_processed AS "k [bool]",
       c.revision, c.version, c.spool
  FROM pm_file_claim c JOIN file_processing_state s ON s.id = c.file_id
 WHERE c.file_id = :id AND c.request = :request

-- name: claim_renew
UPDATE pm_file_claim SET until = UTC_TIMESTAMP(6) + INTERVAL :hold_us MICROSECOND
 WHERE file_id = :id AND epoch = :epoch AND owner IS NOT NULL AND until > UTC_TIMESTAMP(6)

-- name: claim_alone
UPDATE pm_file_claim SET is_alone = TRUE
 WHERE file_id = :id AND epoch = :epoch AND owner IS NOT NULL AND until > UTC_TIMESTAMP(6)

-- name: claim_lock
SELECT epoch FROM pm_file_claim WHERE file_id = :id FOR UPDATE

-- name: file_done
UPDATE file_processing_state SET state = 'COMPLETED', error_message = NULL
 WHERE id = :id AND EXISTS (SELECT 1 FROM pm_file_claim c WHERE c.file_id = :id AND c.epoch = :epoch
                               AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6))

-- name: file_again
-- It waits: for all of it, or for the sink that is missing.
UPDATE file_processing_state
   SET state = IF(mysql_processed OR clickhouse_processed, 'PARTIAL_DONE', 'PENDING'),
       retry_count = :attempts, error_message = COALESCE(:error, error_message)
 WHERE id = :id AND EXISTS (SELECT 1 FROM pm_file_claim c WHERE c.file_id = :id AND c.epoch = :epoch
                               AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6))

-- name: file_dead
UPDATE file_processing_state SET state = 'ERROR', retry_count = :attempts, error_message = :error
 WHERE id = :id AND EXISTS (SELECT 1 FROM pm_file_claim c WHERE c.file_id = :id AND c.epoch = :epoch
                               AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6))

-- name: claim_end
-- A suspect that is given back, or died as one, is still one.
UPDATE pm_file_claim
   SET losses = IF(:stays_suspect, losses, 0), is_alone = FALSE, due_at = :due_at, attempts = :attempts,
       ended = :ended, owner = NULL, until = NULL
 WHERE file_id = :id AND epoch = :epoch AND owner IS NOT NULL AND until > UTC_TIMESTAMP(6)

-- name: claim_ended
SELECT 1 FROM pm_file_claim WHERE file_id = :id AND epoch = :epoch AND owner IS NULL AND ended = :ended
