-- name: adopted_columns
SELECT column_name, column_type, COALESCE(collation_name, '') FROM information_schema.columns
 WHERE table_schema = DATABASE() AND table_name = 'file_processing_state'

-- name: adopted_key
SELECT DISTINCT index_name, index_type, non_unique FROM information_schema.statistics
 WHERE table_schema = DATABASE() AND table_name = 'file_processing_state'
