-- name: adopted_columns
-- Texts are compared byte by byte here, whoever made the table.
SELECT name, type, 'utf8mb4_nopad_bin' FROM pragma_table_info('file_processing_state')

-- name: adopted_key
SELECT name, 'BTREE', NOT "unique" FROM pragma_index_list('file_processing_state')

-- name: foreign_minutes
-- There are no sessions with a zone of their own.
SELECT 0

-- name: foreign_states
SELECT DISTINCT state FROM file_processing_state
 WHERE state NOT IN ('PENDING', 'DOWNLOADING', 'PARSING', 'PROCESSING', 'PARTIAL_DONE', 'COMPLETED', 'MOVED', 'ERROR')
