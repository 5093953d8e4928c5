-- name: systems_waiting
-- A look at the first entry of each: there are a handful of systems, however many files wait.
SELECT DISTINCT state, system_type FROM file_processing_state WHERE state IN ('PENDING', 'PARTIAL_DONE')

-- name: files_due
-- Files that we left waiting and that are due, those that have been for longest first: by an index, however many are
-- not due. What lies in another's spool is left to that process for a while.
SELECT s.id, c.spool IS NOT NULL AND c.spool = :spool
  FROM pm_file_claim c FORCE INDEX (pm_file_claim_waits) STRAIGHT_JOIN file_processing_state s ON s.id = c.file_id
 WHERE c.left_as = :left_as AND c.due_at <= UTC_TIMESTAMP(6) AND s.state IN ('PENDING', 'PARTIAL_DONE')
   AND (c.owner IS NULL OR c.until <= UTC_TIMESTAMP(6))
   AND (c.spool IS NULL OR c.spool = :spool
        OR c.due_at <= UTC_TIMESTAMP(6) - INTERVAL :affinity_us MICROSECOND)
 ORDER BY c.due_at LIMIT :count_max

-- name: files_waiting
-- Of one state and system a slice in the order of the index, of any length there is: those that are due, and its last one.
-- What somebody put there has no claim, and what somebody has reset is due at once: no index of ours has these.
WITH f AS (SELECT id FROM file_processing_state
            WHERE state = :state AND system_type = :system_type AND id > :after ORDER BY id LIMIT :examined),
     w AS (SELECT s.id, c.spool IS NOT NULL AND c.spool = :spool AS is_ours,
                  (c.until IS NULL OR c.until <= UTC_TIMESTAMP(6))
                  AND (c.due_at IS NULL OR c.due_at <= UTC_TIMESTAMP(6) OR c.attempts <> COALESCE(s.retry_count, 0)
                       OR (c.left_as <> 'PENDING' AND c.left_as <> s.state) OR COALESCE(c.left_at <> s.updated_at, FALSE))
                  AND (c.spool IS NULL OR c.spool = :spool
                       OR c.due_at <= UTC_TIMESTAMP(6) - INTERVAL :affinity_us MICROSECOND
                       OR c.attempts <> COALESCE(s.retry_count, 0) OR (c.left_as <> 'PENDING' AND c.left_as <> s.state)
                       OR COALESCE(c.left_at <> s.updated_at, FALSE)) AS is_due
             FROM f JOIN file_processing_state s ON s.id = f.id LEFT JOIN pm_file_claim c ON c.file_id = s.id)
SELECT id, is_ours, is_due AS "due [bool]", (SELECT COUNT(*) FROM f)
  FROM w WHERE is_due OR id = (SELECT MAX(id) FROM f)
 ORDER BY id LIMIT :count_max

-- name: files_lost
-- Those whose hold has passed. DOWNLOADING and PARSING without a claim of ours are other programs' work, for as long
-- as they may take.
SELECT s.id, c.spool IS NOT NULL AND c.spool = :spool
  FROM pm_file_claim c JOIN file_processing_state s ON s.id = c.file_id
 WHERE c.until <= UTC_TIMESTAMP(6) AND c.owner IS NOT NULL AND s.state IN ('DOWNLOADING', 'PARSING', 'PROCESSING')
 ORDER BY c.until LIMIT :count_max

-- name: files_spooled
-- What this process has on its disk already: taking it on makes room.
SELECT s.id, TRUE
  FROM pm_file_claim c JOIN file_processing_state s ON s.id = c.file_id
 WHERE c.spool = :spool AND (c.until IS NULL OR c.until <= UTC_TIMESTAMP(6))
   AND (s.state IN ('PENDING', 'PARTIAL_DONE')
        OR (s.state IN ('DOWNLOADING', 'PARSING', 'PROCESSING') AND c.owner IS NOT NULL))
   AND (c.due_at IS NULL OR c.due_at <= UTC_TIMESTAMP(6) OR c.attempts <> COALESCE(s.retry_count, 0)
        OR (c.left_as <> 'PENDING' AND c.left_as <> s.state) OR COALESCE(c.left_at <> s.updated_at, FALSE))
 ORDER BY s.id LIMIT :count_max

-- name: spool_wanted
-- What is still to be read from a spool; nothing of a file whose row somebody has deleted.
SELECT c.file_id, c.revision
  FROM pm_file_claim c JOIN file_processing_state s ON s.id = c.file_id WHERE c.spool = :spool

-- name: claim_begin
-- The row is there and locked from here on: what follows sees the newest of everything.
INSERT INTO pm_file_claim (file_id, revision)
SELECT :id, COALESCE((SELECT MAX(r.revision) FROM pm_file_revision r WHERE r.file_id = :id),
                     1 + COALESCE((SELECT p.revision FROM pm_purged p WHERE p.id = 1), 0)) FROM DUAL
ON DUPLICATE KEY UPDATE file_id = file_id

-- name: claim_take
-- A live hold of the same owner is the same hold. One that passed is a loss, and a crash if the file ran alone. A file
-- that waits and was left otherwise was reset by hand: sinks that have not all of it begin anew (1), or both (2); that
-- is said once. Assignments run from left to right: what they compare with is assigned last.
UPDATE pm_file_claim
   SET restart = (SELECT CASE WHEN s.state NOT IN ('PENDING', 'PARTIAL_DONE') THEN 0
                              WHEN s.mysql_processed AND s.clickhouse_processed THEN IF(s.state = 'PENDING', 2, 0)
                              WHEN left_as <> 'PENDING' AND left_as <> s.state THEN 1
                              ELSE attempts <> COALESCE(s.retry_count, 0) END
                    FROM file_processing_state s WHERE s.id = file_id),
       left_as = 'PENDING',
       attempts = (SELECT COALESCE(s.retry_count, 0) FROM file_processing_state s WHERE s.id = file_id),
       due_at = UTC_TIMESTAMP(6),
       charged = IF(owner IS NOT NULL AND is_alone AND until <= UTC_TIMESTAMP(6), epoch, charged),
       crashes = crashes + (owner IS NOT NULL AND is_alone AND until <= UTC_TIMESTAMP(6)),
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
                  AND (due_at IS NULL OR due_at <= UTC_TIMESTAMP(6) OR attempts <> COALESCE(s.retry_count, 0)
                       OR (left_as <> 'PENDING' AND left_as <> s.state) OR COALESCE(left_at <> s.updated_at, FALSE)))

-- name: claim_state
-- What the table says of a file that is held: it is on its way.
UPDATE file_processing_state s JOIN pm_file_claim c ON c.file_id = s.id
   SET s.state = 'DOWNLOADING', s.download_start_time = UTC_TIMESTAMP(),
       s.mysql_processed = COALESCE(s.mysql_processed, FALSE) AND c.restart < 2,
       s.clickhouse_processed = COALESCE(s.clickhouse_processed, FALSE) AND c.restart < 2
 WHERE s.id = :id AND s.state = 'PENDING' AND c.request = :request

-- name: claim_sinks
-- From here on no earlier holder moves a checkpoint.
INSERT INTO pm_file_sink (file_id, sink, epoch)
SELECT c.file_id, k.sink, c.epoch
  FROM pm_file_claim c JOIN file_processing_state s ON s.id = c.file_id
       JOIN (SELECT 'mysql' AS sink UNION ALL SELECT 'kafka') k
 WHERE c.file_id = :id AND c.request = :request
ON DUPLICATE KEY UPDATE
    next_batch = IF(c.restart AND NOT IF(k.sink = 'mysql', s.mysql_processed, s.clickhouse_processed), 0, next_batch),
    "rows" = IF(next_batch, "rows", 0), digest = IF(next_batch, digest, 0), epoch = c.epoch

-- name: claim_revision
-- Of a file that somebody put into the table by SQL nothing else is known. What begins anew is not whole until its end.
INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at)
SELECT c.file_id, c.revision, COALESCE(s.file_size, 0), '', UTC_TIMESTAMP(6)
  FROM pm_file_claim c JOIN file_processing_state s ON s.id = c.file_id
 WHERE c.file_id = :id AND c.request = :request
   AND (c.restart
        OR NOT EXISTS (SELECT 1 FROM pm_file_revision r WHERE r.file_id = c.file_id AND r.revision = c.revision))
ON DUPLICATE KEY UPDATE is_whole = FALSE

-- name: claim_read
SELECT c.epoch, s.retry_count, s.max_retry, c.losses, c.crashes, s.system_type, s.ftp_server_key, s.ftp_path,
       s.file_name, s.file_size, s.mysql_processed AS "m [bool]", s.clickhouse_processed AS "k [bool]",
       c.revision, r.version, c.spool, r.archived_as, r.content_hash IS NOT NULL AS "read [bool]", r.batch_size,
       r.file_size, r.modified
  FROM pm_file_claim c JOIN file_processing_state s ON s.id = c.file_id
       JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
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
-- Done are both sinks; if somebody has taken a flag back meanwhile, that sink is redone.
UPDATE file_processing_state
   SET state = IF(mysql_processed AND clickhouse_processed, 'COMPLETED',
                  IF(mysql_processed OR clickhouse_processed, 'PARTIAL_DONE', 'PENDING')),
       error_message = NULL
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

-- name: revision_whole
-- All of this content is in both sinks: the same content again need not be written.
UPDATE pm_file_revision r JOIN pm_file_claim c ON c.file_id = r.file_id AND c.revision = r.revision
       JOIN file_processing_state s ON s.id = c.file_id
   SET r.is_whole = TRUE
 WHERE r.file_id = :id AND c.epoch = :epoch AND c.owner IS NOT NULL AND c.until > UTC_TIMESTAMP(6)
   AND s.state = 'COMPLETED'

-- name: claim_end
-- A suspect that is given back, or died as one, is still one. A file that waits is kept in its spool.
UPDATE pm_file_claim
   SET losses = IF(:stays_suspect, losses, 0), is_alone = FALSE, due_at = UTC_TIMESTAMP(6) + INTERVAL :delay_us MICROSECOND,
       attempts = :attempts, is_permanent = :is_permanent, restart = 0,
       left_as = COALESCE(:left_as, (SELECT s.state FROM file_processing_state s WHERE s.id = :id)),
       left_at = (SELECT s.updated_at FROM file_processing_state s WHERE s.id = :id),
       spool = IF(:keeps_spool, spool, NULL), ended = :ended, owner = NULL, until = NULL
 WHERE file_id = :id AND epoch = :epoch AND owner IS NOT NULL AND until > UTC_TIMESTAMP(6)

-- name: claim_ended
SELECT 1 FROM pm_file_claim WHERE file_id = :id AND epoch = :epoch AND owner IS NULL AND ended = :ended

-- name: claim_pardon
-- Its worker lives: a hold that passed while the file ran alone was no crash, whoever finds it.
UPDATE pm_file_claim SET is_alone = FALSE
 WHERE file_id = :id AND epoch = :epoch AND is_alone AND until <= UTC_TIMESTAMP(6)

-- name: crash_pardon
-- Somebody has found it before.
UPDATE pm_file_claim SET crashes = crashes - 1, charged = NULL WHERE file_id = :id AND charged = :epoch
