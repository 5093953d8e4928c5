-- name: adopted_columns
SELECT column_name, column_type, COALESCE(collation_name, '') FROM information_schema.columns
 WHERE table_schema = DATABASE() AND table_name = 'file_processing_state'

-- name: adopted_key
SELECT DISTINCT index_name, index_type, non_unique FROM information_schema.statistics
 WHERE table_schema = DATABASE() AND table_name = 'file_processing_state'

-- name: foreign_minutes
-- By how much the clock of sessions that set no zone of their own differs from ours.
SELECT TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', @@GLOBAL.time_zone))

-- name: foreign_states
SELECT DISTINCT state FROM file_processing_state
 WHERE state NOT IN ('PENDING', 'DOWNLOADING', 'PARSING', 'PROCESSING', 'PARTIAL_DONE', 'COMPLETED', 'MOVED', 'ERROR')
