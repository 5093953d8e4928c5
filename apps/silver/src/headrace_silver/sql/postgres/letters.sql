-- name: letters_counts
-- A task that died again has an older letter too: only its last one counts. The last ones are found by one pass,
-- because nothing is indexed by task.
SELECT letter.reason, letter.rule_id, count(*), min(letter.created_at), max(letter.created_at)
  FROM task_q_dlq AS letter LEFT JOIN silver_redrive AS mark ON mark.letter_id = letter.id
       LEFT JOIN silver_closed AS closed ON closed.letter_id = letter.id
       LEFT JOIN (SELECT task_id, max(id) AS id FROM task_q_dlq GROUP BY task_id) AS last
            ON last.task_id = letter.task_id
 WHERE (:every::boolean OR (mark.letter_id IS NULL AND closed.letter_id IS NULL
                               AND (letter.task_id IS NULL OR last.id = letter.id)))
   AND (:reason::text IS NULL OR letter.reason = :reason::text)
   AND (:rule::text IS NULL OR letter.rule_id = :rule::text)
   AND (:since::timestamptz IS NULL OR letter.created_at >= :since::timestamptz)
   AND (:until::timestamptz IS NULL OR letter.created_at < :until::timestamptz)
   AND (:ids::jsonb IS NULL OR letter.id IN (SELECT jsonb_array_elements_text(:ids::jsonb)::bigint))
 GROUP BY letter.reason, letter.rule_id
 ORDER BY count(*) DESC, letter.reason, letter.rule_id

-- name: letters_ids
-- Oldest first with direction 1, newest first with -1.
SELECT letter.id
  FROM task_q_dlq AS letter LEFT JOIN silver_redrive AS mark ON mark.letter_id = letter.id
       LEFT JOIN silver_closed AS closed ON closed.letter_id = letter.id
       LEFT JOIN (SELECT task_id, max(id) AS id FROM task_q_dlq GROUP BY task_id) AS last
            ON last.task_id = letter.task_id
 WHERE (:every::boolean OR (mark.letter_id IS NULL AND closed.letter_id IS NULL
                               AND (letter.task_id IS NULL OR last.id = letter.id)))
   AND (:reason::text IS NULL OR letter.reason = :reason::text)
   AND (:rule::text IS NULL OR letter.rule_id = :rule::text)
   AND (:since::timestamptz IS NULL OR letter.created_at >= :since::timestamptz)
   AND (:until::timestamptz IS NULL OR letter.created_at < :until::timestamptz)
   AND (:ids::jsonb IS NULL OR letter.id IN (SELECT jsonb_array_elements_text(:ids::jsonb)::bigint))
 ORDER BY letter.id * :direction::integer LIMIT :limit

-- name: letters_of
SELECT letter.id, letter.task_id, letter.reason, letter.rule_id, letter.error_msg, letter.created_at,
       mark.redriven_at, closed.closed_at, closed.closed_by, closed.note, letter.payload::text
  FROM task_q_dlq AS letter LEFT JOIN silver_redrive AS mark ON mark.letter_id = letter.id
       LEFT JOIN silver_closed AS closed ON closed.letter_id = letter.id
 WHERE letter.id IN (SELECT jsonb_array_elements_text(:ids::jsonb)::bigint)
 ORDER BY letter.id DESC

-- name: letters_close
INSERT INTO silver_closed (letter_id, note, closed_by)
SELECT id, :note::text, :closed_by::text FROM task_q_dlq
 WHERE id IN (SELECT jsonb_array_elements_text(:ids::jsonb)::bigint)
RETURNING letter_id

-- name: letters_reopen
DELETE FROM silver_closed WHERE letter_id IN (SELECT jsonb_array_elements_text(:ids::jsonb)::bigint) RETURNING letter_id

-- name: letters_task
SELECT task.task_type, task.status
  FROM task_q_dlq AS letter JOIN task_q AS task ON task.id = letter.task_id
 WHERE letter.id = :id

-- name: redrive_begin
-- One after another: what the first has marked, the second sees.
SELECT pg_advisory_xact_lock(hashtext('silver_redrive'))

-- name: redrive_mark
INSERT INTO silver_redrive (letter_id, task_id)
SELECT id, task_id FROM task_q_dlq
 WHERE id IN (SELECT jsonb_array_elements_text(:ids::jsonb)::bigint)
RETURNING letter_id, task_id

-- name: redrive_tasks
UPDATE task_q SET status = 'ready'
 WHERE status = 'dlq' AND id IN (SELECT jsonb_array_elements_text(:ids::jsonb)::bigint)
RETURNING id

-- name: redrive_orphans
-- Marked letters whose task did not come back: what they hold, and what their task is now if there still is one.
SELECT letter.id, letter.task_id, letter.reason, letter.rule_id, letter.payload::text, task.status
  FROM task_q_dlq AS letter LEFT JOIN task_q AS task ON task.id = letter.task_id
 WHERE letter.id IN (SELECT jsonb_array_elements_text(:ids::jsonb)::bigint)
 ORDER BY letter.id

-- name: redrive_insert
-- It was known by then at the latest, so that is when it was first seen.
INSERT INTO task_q (task_type, payload, first_seen)
SELECT :kind, payload, created_at FROM task_q_dlq
 WHERE id IN (SELECT jsonb_array_elements_text(:ids::jsonb)::bigint) ORDER BY id

-- name: redrive_unmark
DELETE FROM silver_redrive WHERE letter_id IN (SELECT jsonb_array_elements_text(:ids::jsonb)::bigint)
