-- name: purge_count
SELECT COUNT(*), COALESCE(MIN(s.updated_at), '') FROM file_processing_state s
       JOIN pm_file_claim c ON c.file_id = s.id JOIN pm_file_revision r ON r.file_id = s.id AND r.revision = c.revision
 WHERE s.updated_at < UTC_TIMESTAMP() - INTERVAL :age_s SECOND AND s.state = 'MOVED' AND r.archived_as IS NOT NULL

-- name: purge_slice
-- A slice of the rows that were last changed so long ago, in that order, whatever their state; and which of them we have
-- moved ourselves: the file of another one may still be in its folder.
SELECT CAST(f.updated_at AS CHAR), f.id, COALESCE(f.state = 'MOVED' AND r.archived_as IS NOT NULL, FALSE) AS "moved [bool]",
       COALESCE(c.revision, 0)
  FROM (SELECT id, updated_at, state FROM file_processing_state
         WHERE updated_at < UTC_TIMESTAMP() - INTERVAL :age_s SECOND AND updated_at >= :after_at
           AND (updated_at > :after_at OR id > :after_id)
         ORDER BY updated_at, id LIMIT :count_max) f
       LEFT JOIN pm_file_claim c ON c.file_id = f.id
       LEFT JOIN pm_file_revision r ON r.file_id = f.id AND r.revision = c.revision
 ORDER BY f.updated_at, f.id

-- name: purge_floor
INSERT INTO pm_purged (id, revision) VALUES (1, :revision)
ON DUPLICATE KEY UPDATE revision = GREATEST(revision, VALUES(revision))

-- name: purge_free
-- Whoever has one of them locked, perhaps for minutes, is not waited for.
SELECT s.id
  FROM JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j
       STRAIGHT_JOIN pm_file_claim c ON c.file_id = j.id STRAIGHT_JOIN file_processing_state s ON s.id = c.file_id
   FOR UPDATE SKIP LOCKED

-- name: purge_judge
-- In this order, so that no row is touched but these.
UPDATE JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j
       STRAIGHT_JOIN pm_file_claim c ON c.file_id = j.id STRAIGHT_JOIN file_processing_state s ON s.id = c.file_id
       STRAIGHT_JOIN pm_file_revision r ON r.file_id = c.file_id AND r.revision = c.revision
   SET c.verdict = 'purge'
 WHERE s.state = 'MOVED' AND r.archived_as IS NOT NULL AND c.owner IS NULL
   AND s.updated_at < UTC_TIMESTAMP() - INTERVAL :age_s SECOND

-- name: purge_files
-- Other programs lock no claim: what they have changed by now stays.
DELETE s FROM JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j
       STRAIGHT_JOIN pm_file_claim c ON c.file_id = j.id STRAIGHT_JOIN file_processing_state s ON s.id = c.file_id
 WHERE c.verdict = 'purge' AND s.state = 'MOVED' AND s.updated_at < UTC_TIMESTAMP() - INTERVAL :age_s SECOND

-- name: orphans_of_claims
-- A slice of what belongs to files, and whether their rows are gone. One that somebody works on is left to him.
SELECT f.file_id, s.id IS NULL AND (f.until IS NULL OR f.until <= UTC_TIMESTAMP(6)) AS "orphan [bool]", f.revision
  FROM (SELECT file_id, until, revision FROM pm_file_claim WHERE file_id > :after ORDER BY file_id LIMIT :count_max) f
       LEFT JOIN file_processing_state s ON s.id = f.file_id
 ORDER BY f.file_id

-- name: orphans_of_revisions
SELECT f.file_id, s.id IS NULL AND c.file_id IS NULL AS "orphan [bool]", f.revision
  FROM (SELECT file_id, revision FROM pm_file_revision WHERE file_id > :after
         ORDER BY file_id, revision LIMIT :count_max) f
       LEFT JOIN file_processing_state s ON s.id = f.file_id LEFT JOIN pm_file_claim c ON c.file_id = f.file_id
 ORDER BY f.file_id, f.revision

-- name: orphans_of_sinks
SELECT f.file_id, s.id IS NULL AND c.file_id IS NULL AS "orphan [bool]", 0
  FROM (SELECT file_id FROM pm_file_sink WHERE file_id > :after ORDER BY file_id, sink LIMIT :count_max) f
       LEFT JOIN file_processing_state s ON s.id = f.file_id LEFT JOIN pm_file_claim c ON c.file_id = f.file_id
 ORDER BY f.file_id

-- name: purge_sinks
DELETE k FROM JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j
       STRAIGHT_JOIN pm_file_sink k ON k.file_id = j.id LEFT JOIN file_processing_state s ON s.id = j.id
 WHERE s.id IS NULL

-- name: purge_revisions
DELETE r FROM JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j
       STRAIGHT_JOIN pm_file_revision r ON r.file_id = j.id LEFT JOIN file_processing_state s ON s.id = j.id
 WHERE s.id IS NULL

-- name: purge_claims
DELETE c FROM JSON_TABLE(:files, '$[*]' COLUMNS (id BIGINT PATH '$.id')) j
       STRAIGHT_JOIN pm_file_claim c ON c.file_id = j.id LEFT JOIN file_processing_state s ON s.id = j.id
 WHERE s.id IS NULL
