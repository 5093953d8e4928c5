-- name: put_tasks
INSERT INTO task_q (task_type, payload, priority) VALUES (?, ?, ?)

-- name: put_ready
-- There is nobody to tell: whoever follows an embedded store looks for itself.
SELECT 1 WHERE false

-- name: put_flag
SELECT value AS "value [bool]", updated_at AS "updated_at [time]" FROM control_flags WHERE name = :name

-- name: put_backlog
SELECT count(*) FROM task_q WHERE status = 'ready'

-- name: put_nothing_here
-- Whether the tables hold nothing yet that a sample could overwrite.
SELECT NOT EXISTS (SELECT 1 FROM ta_silver) AND NOT EXISTS (SELECT 1 FROM sa_silver)
       AND NOT EXISTS (SELECT 1 FROM task_q) AS "nothing [bool]"
