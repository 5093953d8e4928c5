-- name: silver_present
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'task_q') AS "queue [bool]"
