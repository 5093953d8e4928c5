-- schedule_insert
-- A new schedule; nothing if there is one of this name.
INSERT INTO headrace.schedule (name, flow, timetable, tz, payload, stage, misfire, overlap, jitter_s, tenant, origin,
                               handled_ms)
VALUES (%(name)b, %(flow)b, %(timetable)b, %(tz)b, %(payload)b::bytea, %(stage)b, %(misfire)b, %(overlap)b,
        %(jitter_s)b::double precision, %(tenant)b, %(origin)b, headrace.now_ms())
    ON CONFLICT (name) DO NOTHING
RETURNING 1

-- schedule_locked
-- A schedule as it stands, held until the end of the transaction.
SELECT name, flow, timetable, tz, payload, stage, misfire, overlap, jitter_s, tenant, origin, paused, revision,
       handled_ms, headrace.now_ms()
  FROM headrace.schedule WHERE name = %b FOR UPDATE

-- schedule_update
-- A schedule that differs from what stands.
UPDATE headrace.schedule
   SET flow = %(flow)b, timetable = %(timetable)b, tz = %(tz)b, payload = %(payload)b::bytea, stage = %(stage)b,
       misfire = %(misfire)b, overlap = %(overlap)b, jitter_s = %(jitter_s)b::double precision, tenant = %(tenant)b,
       origin = %(origin)b, revision = %(revision)b::bigint, handled_ms = %(handled_ms)b::bigint, due_ms = NULL
 WHERE name = %(name)b

-- schedules_undeclare
-- What these flows had declared and do not any more.
UPDATE headrace.schedule SET origin = 'undeclared', revision = revision + 1, due_ms = NULL
 WHERE origin = 'declared' AND flow = ANY (%b::text[]) AND name <> ALL (%b::text[])

-- schedule_worker_insert
-- A worker has these flows.
INSERT INTO headrace.schedule_worker (worker, flow) SELECT %b, flow FROM unnest(%b::text[]) flow ON CONFLICT DO NOTHING

-- schedule_workers_forget
-- Workers that are long gone.
DELETE FROM headrace.schedule_worker sw
 WHERE sw.started_at < clock_timestamp() - headrace.seconds(%b::double precision)
   AND NOT EXISTS (SELECT FROM headrace.worker w WHERE w.id = sw.worker)

-- schedule_attended
-- Whether a worker that runs now has a flow.
SELECT headrace.attended(%b)

-- schedule_delete
-- Forget a schedule and its fires.
WITH gone AS (DELETE FROM headrace.fire f WHERE f.schedule = %(name)b)
DELETE FROM headrace.schedule s WHERE s.name = %(name)b

-- schedule_pause
-- Stop firing.
UPDATE headrace.schedule SET paused = true, revision = revision + 1 WHERE name = %b AND NOT paused RETURNING 1

-- schedule_resume
-- Go on from now.
UPDATE headrace.schedule SET paused = false, revision = revision + 1, handled_ms = headrace.now_ms(), due_ms = NULL
 WHERE name = %b AND paused
RETURNING 1

-- schedule_ask
-- An operator wants a fire under this moment; the same again is the same wish, also when it was made.
UPDATE headrace.schedule s SET asked_ms = CASE WHEN EXISTS (
           SELECT FROM headrace.fire f WHERE f.schedule = s.name AND f.moment_ms = %(moment_ms)b::bigint)
       THEN s.asked_ms ELSE %(moment_ms)b::bigint END
 WHERE s.name = %(name)b AND (s.asked_ms IS NULL OR s.asked_ms = %(moment_ms)b::bigint)
RETURNING 1

-- schedules_due
-- What wants to be looked at, after a row with the time and with when the next one is due.
WITH clock AS MATERIALIZED (SELECT headrace.now_ms() AS now_ms),
     own AS MATERIALIZED (SELECT s.*, NOT s.paused AND s.origin <> 'undeclared' AS running
                            FROM headrace.schedule s WHERE s.flow = ANY (%(flows)b::text[]))
SELECT NULL, NULL, NULL, NULL, NULL::bytea, NULL, NULL, NULL, NULL::double precision, NULL, NULL::bigint, c.now_ms,
       (SELECT min(o.due_ms) FROM own o WHERE o.running), NULL::boolean, 0::bigint AS turn
  FROM clock c
UNION ALL
(SELECT o.name, o.flow, o.timetable, o.tz, o.payload, o.stage, o.misfire, o.overlap, o.jitter_s, o.tenant, o.revision,
        o.handled_ms, o.asked_ms, o.running, row_number() OVER (ORDER BY o.due_ms NULLS FIRST, o.name)
   FROM own o, clock c
  WHERE o.asked_ms IS NOT NULL
     OR (o.running AND (o.due_ms IS NULL OR o.due_ms <= c.now_ms OR o.handled_ms > c.now_ms + %(ahead_ms)b::bigint))
  ORDER BY o.due_ms NULLS FIRST, o.name LIMIT %(count_max)b)
ORDER BY turn

-- schedule_advance
-- One compare-and-set: the schedule is as it was seen when its fires were decided. Whoever freezes from here on loses
-- the transaction, because others wait for this row.
UPDATE headrace.schedule
   SET handled_ms = %(handled_ms)b::bigint, due_ms = %(due_ms)b::bigint, missed = missed + %(missed)b::bigint,
       asked_ms = CASE WHEN asked_ms = ANY (%(moments)b::bigint[]) THEN NULL ELSE asked_ms END
 WHERE name = %(name)b AND revision = %(revision)b::bigint AND handled_ms = %(seen_ms)b::bigint
RETURNING overlap, last_job, set_config('idle_in_transaction_session_timeout', '2s', true)

-- fire_known
-- Whether a moment has its row.
SELECT 1 FROM headrace.fire WHERE schedule = %b AND moment_ms = %b::bigint

-- fire_insert
-- One moment, once.
INSERT INTO headrace.fire (schedule, moment_ms, outcome, job, reason, manual)
VALUES (%(schedule)b, %(moment_ms)b::bigint, %(outcome)b, %(job)b, %(reason)b, %(manual)b::boolean)
RETURNING 1

-- schedule_last_job
-- The job that the next fire may have to wait for.
UPDATE headrace.schedule SET last_job = %b WHERE name = %b RETURNING 1

-- job_is_open
-- Whether a job has an open generation.
SELECT EXISTS (SELECT FROM headrace.job WHERE id = %b AND state = 'open')

-- fires_prune
-- A few fires that are past their time: more go than come, and a clock that is far ahead takes few with it.
DELETE FROM headrace.fire f USING (
    SELECT schedule, moment_ms FROM headrace.fire WHERE schedule = %b AND moment_ms < %b::bigint
     ORDER BY moment_ms LIMIT 2) old
 WHERE f.schedule = old.schedule AND f.moment_ms = old.moment_ms
RETURNING 1

-- fires_of
-- The rows of some moments.
SELECT moment_ms, outcome, job, reason, manual, extract(epoch FROM fired_at)::double precision FROM headrace.fire
 WHERE schedule = %b AND moment_ms = ANY (%b::bigint[]) ORDER BY moment_ms

-- schedule_list
-- All schedules as people see them, or one.
SELECT s.name, s.flow, s.timetable, s.tz, s.payload, s.stage, s.misfire, s.overlap, s.jitter_s, s.tenant, s.origin,
       s.paused, headrace.attended(s.flow), s.handled_ms, headrace.now_ms(), s.asked_ms, s.missed
  FROM headrace.schedule s WHERE %(name)b::text IS NULL OR s.name = %(name)b ORDER BY s.name

-- fires_newest
-- The newest fires of each schedule, or of one.
SELECT f.schedule, f.moment_ms, f.outcome, f.job, f.reason, f.manual, extract(epoch FROM f.fired_at)::double precision
  FROM headrace.schedule s
 CROSS JOIN LATERAL (SELECT * FROM headrace.fire f WHERE f.schedule = s.name
                      ORDER BY f.moment_ms DESC LIMIT %(count_max)b) f
 WHERE %(name)b::text IS NULL OR s.name = %(name)b
 ORDER BY f.schedule, f.moment_ms DESC
