-- name: files_known
-- What is known of these names of a folder; and whether it was nowhere for a while, so that it is back if it is listed.
SELECT s.file_name, s.id, s.state, s.file_size, r.file_size, r.modified,
       s.state = 'ERROR' AND COALESCE(s.error_message, '') LIKE 'vanished%'
       AND s.updated_at <= UTC_TIMESTAMP() - INTERVAL :minutes MINUTE AS "vanished [bool]"
  FROM file_processing_state s LEFT JOIN pm_file_claim c ON c.file_id = s.id
       LEFT JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE s.system_type = :system_type AND s.ftp_server_key = :server_key AND s.ftp_path = :path
   AND s.file_name IN (SELECT j.name FROM JSON_TABLE(:names, '$[*]' COLUMNS (name VARCHAR(255) PATH '$')) j)

-- name: files_awaited
-- Files of a folder that were listed and not moved since, the newest first.
SELECT s.file_name
  FROM file_processing_state s JOIN pm_file_claim c ON c.file_id = s.id
       JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE s.state IN ('PENDING', 'DOWNLOADING', 'PARSING', 'PROCESSING', 'PARTIAL_DONE', 'COMPLETED')
   AND s.system_type = :system_type AND s.ftp_server_key = :server_key AND s.ftp_path = :path
   AND r.modified <> '' AND s.id <> :id
 ORDER BY s.id DESC LIMIT :count_max

-- name: files_archived
-- Names of a folder that were moved, from the end of the unique key: names mostly begin alike and end with a time.
SELECT file_name FROM file_processing_state
 WHERE system_type = :system_type AND ftp_server_key = :server_key AND ftp_path = :path AND state = 'MOVED'
 ORDER BY file_name DESC LIMIT :count_max

-- name: files_unmoved
-- In the order of the unique key, which has all that is asked for but the state.
SELECT file_name, state <> 'MOVED' AS "unmoved [bool]" FROM file_processing_state
 WHERE system_type = :system_type AND ftp_server_key = :server_key AND ftp_path = :path AND file_name > :after
 ORDER BY file_name LIMIT :count_max

-- name: files_insert
-- The unique key decides, and nothing is cut or hidden.
INSERT INTO file_processing_state (system_type, ftp_server_key, ftp_path, file_name, file_size, state, max_retry)
VALUES (:system_type, :server_key, :path, :name, :size, 'PENDING', :max_retry) ON DUPLICATE KEY UPDATE id = id

-- name: revisions_first
INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at)
SELECT s.id, 1 + COALESCE((SELECT p.revision FROM pm_purged p WHERE p.id = 1), 0),
       j.size, j.modified, UTC_TIMESTAMP(6)
  FROM JSON_TABLE(:files, '$[*]' COLUMNS (name VARCHAR(255) PATH '$[0]', size BIGINT PATH '$[1]',
           modified VARCHAR(20) PATH '$[2]')) j
       JOIN file_processing_state s ON s.system_type = :system_type AND s.ftp_server_key = :server_key
            AND s.ftp_path = :path AND s.file_name = j.name
       LEFT JOIN pm_file_claim c ON c.file_id = s.id
 WHERE c.file_id IS NULL
ON DUPLICATE KEY UPDATE revision = pm_file_revision.revision

-- name: claims_first
INSERT INTO pm_file_claim (file_id, left_as, attempts, due_at, revision)
SELECT s.id, s.state, COALESCE(s.retry_count, 0), UTC_TIMESTAMP(6),
       COALESCE((SELECT MAX(r.revision) FROM pm_file_revision r WHERE r.file_id = s.id),
                1 + COALESCE((SELECT p.revision FROM pm_purged p WHERE p.id = 1), 0))
  FROM JSON_TABLE(:files, '$[*]' COLUMNS (name VARCHAR(255) PATH '$[0]')) j
       JOIN file_processing_state s ON s.system_type = :system_type AND s.ftp_server_key = :server_key
            AND s.ftp_path = :path AND s.file_name = j.name
       LEFT JOIN pm_file_claim c ON c.file_id = s.id
 WHERE c.file_id IS NULL
ON DUPLICATE KEY UPDATE file_id = pm_file_claim.file_id

-- name: claims_made
-- Files that other programs put there have none yet.
INSERT INTO pm_file_claim (file_id, left_as, attempts, due_at, revision)
SELECT s.id, s.state, COALESCE(s.retry_count, 0), UTC_TIMESTAMP(6),
       COALESCE((SELECT MAX(r.revision) FROM pm_file_revision r WHERE r.file_id = s.id),
                1 + COALESCE((SELECT p.revision FROM pm_purged p WHERE p.id = 1), 0))
  FROM JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j
       JOIN file_processing_state s ON s.id = j.id LEFT JOIN pm_file_claim c ON c.file_id = s.id
 WHERE c.file_id IS NULL
ON DUPLICATE KEY UPDATE file_id = pm_file_claim.file_id

-- name: revisions_made
INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at)
SELECT c.file_id, c.revision, COALESCE(s.file_size, 0), '', UTC_TIMESTAMP(6)
  FROM JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j
       JOIN pm_file_claim c ON c.file_id = j.id JOIN file_processing_state s ON s.id = c.file_id
       LEFT JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
 WHERE r.file_id IS NULL
ON DUPLICATE KEY UPDATE revision = pm_file_revision.revision

-- name: claims_lock
SELECT c.file_id FROM JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j
  JOIN pm_file_claim c ON c.file_id = j.id ORDER BY c.file_id FOR UPDATE

-- name: claims_judge
-- Under the lock, by the stamp that the scanner compared with. A file that was never read has another stamp from now
-- on; one that has ended begins anew; one that is being read, or waits for a sink, is asked about again later.
UPDATE pm_file_claim c
       JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id', size BIGINT PATH '$.size',
           modified VARCHAR(20) PATH '$.modified', size_before BIGINT PATH '$.size_before',
           modified_before VARCHAR(20) PATH '$.modified_before')) j ON j.id = c.file_id
       JOIN file_processing_state s ON s.id = c.file_id
       JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
   SET c.verdict = CASE WHEN r.content_hash IS NULL AND s.state NOT IN ('DOWNLOADING', 'PARSING', 'PROCESSING')
                        THEN 'stamp'
                        WHEN r.content_hash IS NOT NULL AND s.state IN ('COMPLETED', 'MOVED', 'ERROR') THEN 'new' END
 WHERE (c.owner IS NULL OR c.until <= UTC_TIMESTAMP(6))
   AND r.file_size = j.size_before AND r.modified = j.modified_before
   AND (s.state = 'MOVED' OR (s.state = 'ERROR' AND COALESCE(s.error_message, '') LIKE 'vanished%')
        OR r.file_size <> j.size OR r.modified <> j.modified)

-- name: revisions_stamp
UPDATE pm_file_revision r
       JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id', size BIGINT PATH '$.size',
           modified VARCHAR(20) PATH '$.modified')) j ON j.id = r.file_id
       JOIN pm_file_claim c ON c.file_id = r.file_id AND c.revision = r.revision
   SET r.file_size = j.size, r.modified = j.modified, r.seen_at = UTC_TIMESTAMP(6)
 WHERE c.verdict = 'stamp'

-- name: revisions_new
INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at)
SELECT c.file_id, c.revision + 1, j.size, j.modified, UTC_TIMESTAMP(6)
  FROM JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id', size BIGINT PATH '$.size',
           modified VARCHAR(20) PATH '$.modified')) j
       JOIN pm_file_claim c ON c.file_id = j.id
 WHERE c.verdict = 'new'

-- name: files_renew
UPDATE file_processing_state s
       JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id', size BIGINT PATH '$.size')) j ON j.id = s.id
       JOIN pm_file_claim c ON c.file_id = s.id
   SET s.state = 'PENDING', s.file_size = j.size, s.mysql_processed = FALSE, s.clickhouse_processed = FALSE,
       s.retry_count = 0, s.error_message = NULL, s.download_start_time = NULL, s.download_end_time = NULL,
       s.parse_start_time = NULL, s.parse_end_time = NULL, s.mysql_insert_time = NULL, s.clickhouse_insert_time = NULL,
       s.file_moved_time = NULL
 WHERE c.verdict IS NOT NULL

-- name: sinks_renew
UPDATE pm_file_sink k
       JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = k.file_id
       JOIN pm_file_claim c ON c.file_id = k.file_id
   SET k.next_batch = 0, k."rows" = 0, k.digest = 0, k.epoch = c.epoch + 1
 WHERE c.verdict IS NOT NULL

-- name: claims_renew
UPDATE pm_file_claim c JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = c.file_id
   SET c.revision = c.revision + (c.verdict = 'new'), c.epoch = c.epoch + 1, c.left_as = 'PENDING', c.attempts = 0,
       c.is_permanent = FALSE, c.due_at = UTC_TIMESTAMP(6), c.spool = NULL, c.losses = 0, c.crashes = 0,
       c.is_alone = FALSE, c.owner = NULL, c.until = NULL, c.ended = NULL, c.charged = NULL
 WHERE c.verdict IS NOT NULL

-- name: claims_judged
UPDATE pm_file_claim c JOIN JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j ON j.id = c.file_id
   SET c.verdict = NULL
 WHERE c.verdict IS NOT NULL

-- name: stamps_registered
SELECT j.id
  FROM JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id', size BIGINT PATH '$.size',
           modified VARCHAR(20) PATH '$.modified')) j
       JOIN pm_file_claim c ON c.file_id = j.id
       JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
       JOIN file_processing_state s ON s.id = c.file_id
 WHERE r.file_size = j.size AND r.modified = j.modified AND s.state <> 'MOVED'
