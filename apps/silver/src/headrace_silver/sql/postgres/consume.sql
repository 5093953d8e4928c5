-- name: consume_lock
-- The server hashes the name itself, as every other consumer has it do.
SELECT pg_try_advisory_lock(hashtext(:name)), pg_backend_pid()

-- name: consume_unlock
SELECT pg_advisory_unlock(hashtext(:name))

-- name: consume_holder
-- A lock by one number is kept as its two halves. Of another role's session only its process and role are shown.
SELECT pid, coalesce(usename, '?'), coalesce(host(client_addr), 'this machine'),
       coalesce(NULLIF(application_name, ''), 'nameless'),
       coalesce(to_char(backend_start, 'YYYY-MM-DD HH24:MI:SS'), '?')
  FROM pg_locks LEFT JOIN pg_stat_activity USING (pid)
 WHERE locktype = 'advisory' AND objsubid = 1 AND granted
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND (classid::bigint << 32 | objid::bigint) = hashtext(:name)

-- name: consume_begin
-- Rows are looked up by their keys whatever the statistics say: a plan made while a table was small would read all of
-- it when it is large. Without jit, because the price of a forbidden plan counts as a reason to compile.
SELECT now(), pg_backend_pid(), set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
       set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('enable_sort', 'off', true), set_config('jit', 'off', true)

-- name: consume_fetch
-- A row is visited once, where it is locked. No id in the inner order: it would sort all tasks of one moment in every
-- batch. A time that Python has no word for is read as the last or first one it has.
SELECT id, task_type, payload::text,
       LEAST(GREATEST(first_seen, '0001-01-02 00:00+00'::timestamptz), '9999-12-30 00:00+00'::timestamptz)
  FROM (SELECT id, task_type, payload, priority, first_seen FROM task_q
         WHERE status = 'ready'
         ORDER BY priority, first_seen LIMIT :size FOR UPDATE SKIP LOCKED) AS held
 ORDER BY priority, first_seen, id

-- name: consume_ahead
-- Which tasks come next, for many batches at once.
SELECT array(SELECT id FROM task_q WHERE status = 'ready' ORDER BY priority, first_seen LIMIT :count)

-- name: consume_coming
-- Tasks whose turn was found out before, each with its writer, read but not held. The status is asked for in a way that
-- no index of it fits: before the table is first analysed, all of such an index would be read instead of these keys
-- (measured: 227 ms for 1.5).
SELECT id, task_type, payload::text,
       LEAST(GREATEST(first_seen, '0001-01-02 00:00+00'::timestamptz), '9999-12-30 00:00+00'::timestamptz),
       xmin::text::bigint
  FROM task_q
 WHERE id = ANY(:ids) AND (status = 'ready') IS TRUE
 ORDER BY priority, first_seen, id

-- name: consume_known
-- Hold the tasks that were read before, if they are as they were: whoever wrote one since is none of its writers.
SELECT count(*)
  FROM (SELECT FROM task_q
         WHERE id = ANY(:ids) AND (status = 'ready') IS TRUE AND xmin::text::bigint = ANY(:writers)
           FOR UPDATE SKIP LOCKED) AS held

-- name: consume_letters
-- The payload is copied where it lies.
WITH refused AS (
  SELECT * FROM unnest(:task_id, :reason, :rule_id, :error_msg) WITH ORDINALITY
      AS refused(task_id, reason, rule_id, error_msg, place)
), marked AS (
  UPDATE task_q SET status = 'dlq', last_attempt = now() FROM refused WHERE task_q.id = refused.task_id
  RETURNING task_q.id, reason, rule_id, payload, error_msg, place
)
INSERT INTO task_q_dlq (task_id, reason, rule_id, payload, error_msg)
SELECT id, reason, rule_id, payload, error_msg FROM marked ORDER BY place

-- name: consume_rejects
-- Counted day by day of the market, so that nobody has to read all letters for it.
INSERT INTO silver_reject_day AS known (day, reason, rule_id, count)
SELECT (now() AT TIME ZONE 'Asia/Ho_Chi_Minh')::date, reason, coalesce(rule_id, ''), count(*)
  FROM unnest(:reason, :rule_id) AS refused(reason, rule_id)
 GROUP BY reason, coalesce(rule_id, '')
    ON CONFLICT (day, reason, rule_id) DO UPDATE SET count = known.count + EXCLUDED.count

-- name: consume_done
DELETE FROM task_q WHERE id = ANY(:task_id)

-- name: consume_flag
-- Counted from the far end of the index, where nothing has been deleted yet, and no further than the question goes.
INSERT INTO control_flags (name, value, updated_at)
SELECT :name, count(*) > :threshold, now()
  FROM (SELECT FROM task_q WHERE status = 'ready'
         ORDER BY priority DESC, first_seen DESC LIMIT :threshold::bigint + 1) AS ready
    ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value, updated_at = EXCLUDED.updated_at
RETURNING value
