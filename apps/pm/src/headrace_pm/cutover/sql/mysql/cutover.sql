-- name: mode_now
SELECT mode, changed_at FROM pm_cutover ORDER BY id DESC LIMIT 1

-- name: mode_begun
-- A shadow that was there before, or a pipeline that took over, stays what it is.
INSERT INTO pm_cutover (mode, changed_at, note)
SELECT 'shadow', UTC_TIMESTAMP(6), 'pm shadow was started for the first time' FROM DUAL
 WHERE NOT EXISTS (SELECT 1 FROM pm_cutover)

-- name: own_claims_kept
SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'pm_file_claim'

-- name: own_claims
SELECT 1 FROM pm_file_claim LIMIT 1

-- name: mode_set
INSERT INTO pm_cutover (mode, changed_at, note) VALUES (:mode, UTC_TIMESTAMP(6), :note)

-- name: shadow_began
SELECT MIN(changed_at) FROM pm_cutover WHERE mode = 'shadow'

-- name: place_seen
-- The digest is assigned last: assignments run left to right, and the time depends on whether it changes.
INSERT INTO pm_shadow_place (system_type, ftp_server_key, ftp_path, place, files, digest, changed_at, looked_at)
VALUES (:system_type, :server_key, :path, :place, :files, :digest, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE changed_at = IF(digest = VALUES(digest), changed_at, VALUES(changed_at)),
    looked_at = VALUES(looked_at), files = VALUES(files), digest = VALUES(digest)

-- name: places_seen
SELECT system_type, ftp_server_key, ftp_path, place, files,
       TIMESTAMPDIFF(SECOND, changed_at, UTC_TIMESTAMP(6)), TIMESTAMPDIFF(SECOND, looked_at, UTC_TIMESTAMP(6))
  FROM pm_shadow_place ORDER BY system_type, ftp_server_key, ftp_path, place

-- name: versions_written
-- Of rows with one key the highest version counts, whoever wrote it.
SELECT COALESCE(MAX(version), 0) FROM pm_counter_data

-- name: versions_floor
-- The next version is above this one; a counter of the server that was raised stays so.
INSERT INTO pm_file_revision (version, file_id, revision, file_size, modified, seen_at)
VALUES (:version, 0, 0, 0, '', UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE version = VALUES(version)

-- name: versions_floor_mark
DELETE FROM pm_file_revision WHERE file_id = 0 AND revision = 0
