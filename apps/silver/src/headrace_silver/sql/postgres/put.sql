-- name: put_tasks
COPY task_q (task_type, payload, priority) FROM STDIN

-- name: put_ready
-- Told with the commit; a consumer that follows does not have to wait for its next look.
NOTIFY silver_task

-- name: put_flag
SELECT value, updated_at FROM control_flags WHERE name = :name

-- name: put_backlog
-- Exact, and so as slow as the queue is long: only for those who ask.
SELECT count(*) FROM task_q WHERE status = 'ready'

-- name: put_nothing_here
-- Whether the tables hold nothing yet that a sample could overwrite.
SELECT NOT EXISTS (SELECT FROM ta_silver) AND NOT EXISTS (SELECT FROM sa_silver) AND NOT EXISTS (SELECT FROM task_q)
