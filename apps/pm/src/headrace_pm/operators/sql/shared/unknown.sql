-- name: unknown_count_file
-- A second insert is refused: who counts a revision twice has lost against another process.
INSERT INTO pm_unknown_counter_file (version) VALUES (:version)

-- name: counter_level
SELECT level_id FROM extra_field_column WHERE code = 'rat_type'
