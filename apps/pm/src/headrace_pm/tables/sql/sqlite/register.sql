-- name: files_known
-- What is known of these names of a folder; and whether it was nowhere for a while, so that it is back if it is listed.
SELECT s.file_name, s.id, s.state, s.file_size, r.file_size, r.modified,
       s.state = 'ERROR' AND COALESCE(s.error_message, '') LIKE 'vanished%'
       AND unixepoch(s.updated_at) <= unixepoch('now', -:minutes || ' minutes') AS "vanished [bool]"
  FROM json_each(:names) j
       CROSS JOIN file_processing_state s ON s.system_type = :system_type AND s.ftp_server_key = :server_key
            AND s.ftp_path = :path AND s.file_name = j.value
       LEFT JOIN pm_file_claim c ON c.file_id = s.id
       LEFT JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision

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
SELECT file_name, state <> 'MOVED' AS "unmoved [bool]" FROM file_processing_state
 WHERE system_type = :system_type AND ftp_server_key = :server_key AND ftp_path = :path AND file_name > :after
 ORDER BY file_name LIMIT :count_max

-- name: files_insert
-- The unique key decides, and nothing is cut or hidden.
INSERT INTO file_processing_state (system_type, ftp_server_key, ftp_path, file_name, file_size, state, max_retry)
VALUES (:system_type, :server_key, :path, :name, :size, 'PENDING', :max_retry)
ON CONFLICT (system_type, ftp_server_key, ftp_path, file_name) DO NOTHING

-- name: revisions_first
INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at)
SELECT s.id, 1 + COALESCE((SELECT p.revision FROM pm_purged p WHERE p.id = 1), 0),
       j.value ->> 1, j.value ->> 2, (SELECT now FROM pm_clock)
  FROM json_each(:files) j
       CROSS JOIN file_processing_state s ON s.system_type = :system_type AND s.ftp_server_key = :server_key
            AND s.ftp_path = :path AND s.file_name = j.value ->> 0
       LEFT JOIN pm_file_claim c ON c.file_id = s.id
 WHERE c.file_id IS NULL
ON CONFLICT (file_id, revision) DO NOTHING

-- name: claims_first
INSERT INTO pm_file_claim (file_id, left_as, attempts, due_at, revision)
SELECT s.id, s.state, COALESCE(s.retry_count, 0), (SELECT now FROM pm_clock),
       COALESCE((SELECT MAX(r.revision) FROM pm_file_revision r WHERE r.file_id = s.id),
                1 + COALESCE((SELECT p.revision FROM pm_purged p WHERE p.id = 1), 0))
  FROM json_each(:files) j
       CROSS JOIN file_processing_state s ON s.system_type = :system_type AND s.ftp_server_key = :server_key
            AND s.ftp_path = :path AND s.file_name = j.value ->> 0
 WHERE TRUE
ON CONFLICT (file_id) DO NOTHING

-- name: claims_made
-- Files that other programs put there have none yet.
INSERT INTO pm_file_claim (file_id, left_as, attempts, due_at, revision)
SELECT s.id, s.state, COALESCE(s.retry_count, 0), (SELECT now FROM pm_clock),
       COALESCE((SELECT MAX(r.revision) FROM pm_file_revision r WHERE r.file_id = s.id),
                1 + COALESCE((SELECT p.revision FROM pm_purged p WHERE p.id = 1), 0))
  FROM json_each(:files) j CROSS JOIN file_processing_state s ON s.id = j.value ->> 'id'
 WHERE TRUE
ON CONFLICT (file_id) DO NOTHING

-- name: revisions_made
INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at)
SELECT c.file_id, c.revision, COALESCE(s.file_size, 0), '', (SELECT now FROM pm_clock)
  FROM json_each(:files) j CROSS JOIN pm_file_claim c ON c.file_id = j.value ->> 'id'
       JOIN file_processing_state s ON s.id = c.file_id
 WHERE TRUE
ON CONFLICT (file_id, revision) DO NOTHING

-- name: claims_lock
-- There is one writer.
SELECT c.file_id FROM json_each(:files) j CROSS JOIN pm_file_claim c ON c.file_id = j.value ->> 'id'

-- name: claims_judge
-- By the stamp that the scanner compared with. A file that was never read has another stamp from now on; one that has
-- ended begins anew; one that is being read, or waits for a sink, is asked about again later.
UPDATE pm_file_claim
   SET verdict = CASE WHEN r.content_hash IS NULL AND s.state NOT IN ('DOWNLOADING', 'PARSING', 'PROCESSING')
                      THEN 'stamp'
                      WHEN r.content_hash IS NOT NULL AND s.state IN ('COMPLETED', 'MOVED', 'ERROR') THEN 'new' END
  FROM json_each(:files) j, file_processing_state s, pm_file_revision r
 WHERE pm_file_claim.file_id = j.value ->> 'id' AND s.id = pm_file_claim.file_id
   AND r.file_id = pm_file_claim.file_id AND r.revision = pm_file_claim.revision
   AND (pm_file_claim.owner IS NULL OR pm_file_claim.until <= (SELECT now FROM pm_clock))
   AND r.file_size = j.value ->> 'size_before' AND r.modified = j.value ->> 'modified_before'
   AND (s.state = 'MOVED' OR (s.state = 'ERROR' AND COALESCE(s.error_message, '') LIKE 'vanished%')
        OR r.file_size <> j.value ->> 'size' OR r.modified <> j.value ->> 'modified')

-- name: revisions_stamp
UPDATE pm_file_revision
   SET file_size = j.value ->> 'size', modified = j.value ->> 'modified', seen_at = (SELECT now FROM pm_clock)
  FROM json_each(:files) j, pm_file_claim c
 WHERE c.file_id = j.value ->> 'id' AND pm_file_revision.file_id = c.file_id
   AND pm_file_revision.revision = c.revision AND c.verdict = 'stamp'

-- name: revisions_new
INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at)
SELECT c.file_id, c.revision + 1, j.value ->> 'size', j.value ->> 'modified', (SELECT now FROM pm_clock)
  FROM json_each(:files) j CROSS JOIN pm_file_claim c ON c.file_id = j.value ->> 'id'
 WHERE c.verdict = 'new'

-- name: files_renew
UPDATE file_processing_state
   SET state = 'PENDING', file_size = j.value ->> 'size', mysql_processed = FALSE, clickhouse_processed = FALSE,
       retry_count = 0, error_message = NULL, download_start_time = NULL, download_end_time = NULL,
       parse_start_time = NULL, parse_end_time = NULL, mysql_insert_time = NULL, clickhouse_insert_time = NULL,
       file_moved_time = NULL
  FROM json_each(:files) j, pm_file_claim c
 WHERE c.file_id = j.value ->> 'id' AND file_processing_state.id = c.file_id AND c.verdict IS NOT NULL

-- name: sinks_renew
UPDATE pm_file_sink SET next_batch = 0, "rows" = 0, digest = '0', epoch = c.epoch + 1
  FROM json_each(:files) j, pm_file_claim c
 WHERE c.file_id = j.value ->> 'id' AND pm_file_sink.file_id = c.file_id AND c.verdict IS NOT NULL

-- name: claims_renew
UPDATE pm_file_claim
   SET revision = revision + (verdict = 'new'), epoch = epoch + 1, left_as = 'PENDING', attempts = 0,
       is_permanent = FALSE, due_at = (SELECT now FROM pm_clock), spool = NULL, losses = 0, crashes = 0,
       is_alone = FALSE, owner = NULL, until = NULL, ended = NULL, charged = NULL
 WHERE file_id IN (SELECT value ->> 'id' FROM json_each(:files)) AND verdict IS NOT NULL

-- name: claims_judged
UPDATE pm_file_claim SET verdict = NULL
 WHERE file_id IN (SELECT value ->> 'id' FROM json_each(:files)) AND verdict IS NOT NULL

-- name: stamps_registered
SELECT c.file_id
  FROM json_each(:files) j CROSS JOIN pm_file_claim c ON c.file_id = j.value ->> 'id'
       JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
       JOIN file_processing_state s ON s.id = c.file_id
 WHERE r.file_size = j.value ->> 'size' AND r.modified = j.value ->> 'modified' AND s.state <> 'MOVED'
