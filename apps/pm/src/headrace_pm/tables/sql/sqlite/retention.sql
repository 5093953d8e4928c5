-- name: purge_count
SELECT COUNT(*), COALESCE(MIN(s.updated_at), '') FROM file_processing_state s
       JOIN pm_file_claim c ON c.file_id = s.id JOIN pm_file_revision r ON r.file_id = s.id AND r.revision = c.revision
 WHERE s.updated_at < datetime('now', -:age_s || ' seconds') AND s.state = 'MOVED' AND r.archived_as IS NOT NULL

-- name: purge_slice
-- A slice of the rows that were last changed so long ago, in that order, whatever their state; and which of them we have
-- moved ourselves: the file of another one may still be in its folder.
SELECT f.updated_at, f.id, COALESCE(f.state = 'MOVED' AND r.archived_as IS NOT NULL, FALSE) AS "moved [bool]",
       COALESCE(c.revision, 0)
  FROM (SELECT id, updated_at, state FROM file_processing_state
         WHERE updated_at < datetime('now', -:age_s || ' seconds') AND updated_at >= :after_at
           AND (updated_at > :after_at OR id > :after_id)
         ORDER BY updated_at, id LIMIT :count_max) f
       LEFT JOIN pm_file_claim c ON c.file_id = f.id
       LEFT JOIN pm_file_revision r ON r.file_id = f.id AND r.revision = c.revision
 ORDER BY f.updated_at, f.id

-- name: purge_floor
INSERT INTO pm_purged (id, revision) VALUES (1, :revision)
ON CONFLICT (id) DO UPDATE SET revision = max(revision, excluded.revision)

-- name: purge_free
-- There is one writer.
SELECT c.file_id FROM json_each(:files) j CROSS JOIN pm_file_claim c ON c.file_id = j.value ->> 'id'

-- name: purge_judge
UPDATE pm_file_claim SET verdict = 'purge'
  FROM file_processing_state s, pm_file_revision r
 WHERE pm_file_claim.file_id IN (SELECT value ->> 'id' FROM json_each(:files)) AND s.id = pm_file_claim.file_id
   AND r.file_id = pm_file_claim.file_id AND r.revision = pm_file_claim.revision
   AND s.state = 'MOVED' AND r.archived_as IS NOT NULL AND pm_file_claim.owner IS NULL
   AND s.updated_at < datetime('now', -:age_s || ' seconds')

-- name: purge_files
DELETE FROM file_processing_state
 WHERE id IN (SELECT c.file_id FROM json_each(:files) j CROSS JOIN pm_file_claim c ON c.file_id = j.value ->> 'id'
               WHERE c.verdict = 'purge')
   AND state = 'MOVED' AND updated_at < datetime('now', -:age_s || ' seconds')

-- name: orphans_of_claims
-- A slice of what belongs to files, and whether their rows are gone. One that somebody works on is left to him.
SELECT f.file_id, s.id IS NULL AND (f.until IS NULL OR f.until <= (SELECT now FROM pm_clock)) AS "orphan [bool]",
       f.revision
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
DELETE FROM pm_file_sink WHERE file_id IN (SELECT value ->> 'id' FROM json_each(:files))
   AND NOT EXISTS (SELECT 1 FROM file_processing_state s WHERE s.id = file_id)

-- name: purge_revisions
DELETE FROM pm_file_revision WHERE file_id IN (SELECT value ->> 'id' FROM json_each(:files))
   AND NOT EXISTS (SELECT 1 FROM file_processing_state s WHERE s.id = file_id)

-- name: purge_claims
DELETE FROM pm_file_claim WHERE file_id IN (SELECT value ->> 'id' FROM json_each(:files))
   AND NOT EXISTS (SELECT 1 FROM file_processing_state s WHERE s.id = file_id)
