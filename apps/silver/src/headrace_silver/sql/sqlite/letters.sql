-- name: letters_counts
-- A task that died again has an older letter too: only its last one counts. The last ones are found by one pass,
-- because nothing is indexed by task.
SELECT letter.reason, letter.rule_id, count(*), min(letter.created_at) AS "first [time]",
       max(letter.created_at) AS "last [time]"
  FROM task_q_dlq AS letter LEFT JOIN silver_redrive AS mark ON mark.letter_id = letter.id
       LEFT JOIN silver_closed AS closed ON closed.letter_id = letter.id
       LEFT JOIN (SELECT task_id, max(id) AS id FROM task_q_dlq GROUP BY task_id) AS last
            ON last.task_id = letter.task_id
 WHERE (:every OR (mark.letter_id IS NULL AND closed.letter_id IS NULL AND (letter.task_id IS NULL OR last.id = letter.id)))
   AND (:reason IS NULL OR letter.reason = :reason)
   AND (:rule IS NULL OR letter.rule_id = :rule)
   AND (:since IS NULL OR letter.created_at >= :since)
   AND (:until IS NULL OR letter.created_at < :until)
   AND (:ids IS NULL OR letter.id IN (SELECT value FROM json_each(:ids)))
 GROUP BY letter.reason, letter.rule_id
 ORDER BY count(*) DESC, letter.reason, letter.rule_id

-- name: letters_ids
-- Oldest first with direction 1, newest first with -1.
SELECT letter.id
  FROM task_q_dlq AS letter LEFT JOIN silver_redrive AS mark ON mark.letter_id = letter.id
       LEFT JOIN silver_closed AS closed ON closed.letter_id = letter.id
       LEFT JOIN (SELECT task_id, max(id) AS id FROM task_q_dlq GROUP BY task_id) AS last
            ON last.task_id = letter.task_id
 WHERE (:every OR (mark.letter_id IS NULL AND closed.letter_id IS NULL AND (letter.task_id IS NULL OR last.id = letter.id)))
   AND (:reason IS NULL OR letter.reason = :reason)
   AND (:rule IS NULL OR letter.rule_id = :rule)
   AND (:since IS NULL OR letter.created_at >= :since)
   AND (:until IS NULL OR letter.created_at < :until)
   AND (:ids IS NULL OR letter.id IN (SELECT value FROM json_each(:ids)))
 ORDER BY letter.id * :direction LIMIT :limit

-- name: letters_of
SELECT letter.id, letter.task_id, letter.reason, letter.rule_id, letter.error_msg,
       letter.created_at AS "created_at [time]", mark.redriven_at AS "redriven_at [time]",
       closed.closed_at AS "closed_at [time]", closed.closed_by, closed.note, letter.payload
  FROM task_q_dlq AS letter LEFT JOIN silver_redrive AS mark ON mark.letter_id = letter.id
       LEFT JOIN silver_closed AS closed ON closed.letter_id = letter.id
 WHERE letter.id IN (SELECT value FROM json_each(:ids))
 ORDER BY letter.id DESC

-- name: letters_close
INSERT INTO silver_closed (letter_id, note, closed_by)
SELECT id, :note, :closed_by FROM task_q_dlq
 WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING letter_id

-- name: letters_reopen
DELETE FROM silver_closed WHERE letter_id IN (SELECT value FROM json_each(:ids)) RETURNING letter_id

-- name: letters_task
SELECT task.task_type, task.status
  FROM task_q_dlq AS letter JOIN task_q AS task ON task.id = letter.task_id
 WHERE letter.id = :id

-- name: redrive_begin
-- The transaction is the only writer already.
SELECT 1 WHERE false

-- name: redrive_mark
INSERT INTO silver_redrive (letter_id, task_id)
SELECT id, task_id FROM task_q_dlq
 WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING letter_id, task_id

-- name: redrive_tasks
UPDATE task_q SET status = 'ready'
 WHERE status = 'dlq' AND id IN (SELECT value FROM json_each(:ids))
RETURNING id

-- name: redrive_orphans
-- Marked letters whose task did not come back: what they hold, and what their task is now if there still is one.
SELECT letter.id, letter.task_id, letter.reason, letter.rule_id, letter.payload, task.status
  FROM task_q_dlq AS letter LEFT JOIN task_q AS task ON task.id = letter.task_id
 WHERE letter.id IN (SELECT value FROM json_each(:ids))
 ORDER BY letter.id

-- name: redrive_insert
-- It was known by then at the latest, so that is when it was first seen.
INSERT INTO task_q (task_type, payload, first_seen)
SELECT :kind, payload, created_at FROM task_q_dlq
 WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id

-- name: redrive_unmark
DELETE FROM silver_redrive WHERE letter_id IN (SELECT value FROM json_each(:ids))
