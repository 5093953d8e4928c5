-- schedule_insert
-- A new schedule; nothing if there is one of this name.
INSERT INTO headrace_schedule (name, flow, timetable, tz, payload, stage, misfire, overlap, jitter_s, tenant, origin,
                               handled_ms)
VALUES (:name, :flow, :timetable, :tz, :payload, :stage, :misfire, :overlap, :jitter_s, :tenant, :origin, :now_ms)
    ON CONFLICT (name) DO NOTHING
RETURNING 1

-- schedule_row
-- A schedule as it stands.
SELECT name, flow, timetable, tz, payload, stage, misfire, overlap, jitter_s, tenant, origin, paused, revision,
       handled_ms
  FROM headrace_schedule WHERE name = :name

-- schedule_update
-- A schedule that differs from what stands.
UPDATE headrace_schedule
   SET flow = :flow, timetable = :timetable, tz = :tz, payload = :payload, stage = :stage, misfire = :misfire,
       overlap = :overlap, jitter_s = :jitter_s, tenant = :tenant, origin = :origin, revision = :revision,
       handled_ms = :handled_ms, due_ms = NULL
 WHERE name = :name

-- schedules_undeclare
-- What these flows had declared and do not any more.
UPDATE headrace_schedule SET origin = 'undeclared', revision = revision + 1, due_ms = NULL
 WHERE origin = 'declared' AND flow IN (SELECT value FROM json_each(:flows))
   AND name NOT IN (SELECT value FROM json_each(:names))

-- schedule_worker_insert
-- A worker has a flow.
INSERT INTO headrace_schedule_worker (worker, flow, started_at) VALUES (:worker, :flow, :now)
    ON CONFLICT (worker, flow) DO NOTHING

-- schedule_workers_forget
-- Workers that are long gone.
DELETE FROM headrace_schedule_worker
 WHERE started_at < :before AND worker NOT IN (SELECT id FROM headrace_worker)

-- schedule_attended
-- Whether a worker that runs now has the flow of a schedule.
SELECT EXISTS (SELECT 1 FROM headrace_schedule s JOIN headrace_schedule_worker sw ON sw.flow = s.flow
                 JOIN headrace_worker w ON w.id = sw.worker
                WHERE s.name = :name AND w.boot = :boot AND w.seen >= :now - w.hold_s)

-- schedule_delete
-- Forget a schedule.
DELETE FROM headrace_schedule WHERE name = :name

-- fires_delete
-- Forget its fires.
DELETE FROM headrace_fire WHERE schedule = :name

-- schedule_pause
-- Stop firing.
UPDATE headrace_schedule SET paused = 1, revision = revision + 1 WHERE name = :name AND paused = 0 RETURNING 1

-- schedule_resume
-- Go on from now.
UPDATE headrace_schedule SET paused = 0, revision = revision + 1, handled_ms = :now_ms, due_ms = NULL
 WHERE name = :name AND paused = 1
RETURNING 1

-- schedule_ask
-- An operator wants a fire under this moment; the same again is the same wish, also when it was made.
UPDATE headrace_schedule SET asked_ms = CASE WHEN EXISTS (
           SELECT 1 FROM headrace_fire f WHERE f.schedule = :name AND f.moment_ms = :moment_ms)
       THEN asked_ms ELSE :moment_ms END
 WHERE name = :name AND (asked_ms IS NULL OR asked_ms = :moment_ms)
RETURNING 1

-- schedules_due
-- What wants to be looked at.
SELECT name, flow, timetable, tz, payload, stage, misfire, overlap, jitter_s, tenant, revision, handled_ms, asked_ms,
       paused = 0 AND origin <> 'undeclared'
  FROM headrace_schedule
 WHERE flow IN (SELECT value FROM json_each(:flows))
   AND (asked_ms IS NOT NULL
        OR (paused = 0 AND origin <> 'undeclared'
            AND (due_ms IS NULL OR due_ms <= :now_ms OR handled_ms > :now_ms + :ahead_ms)))
 ORDER BY due_ms, name LIMIT :count_max

-- schedules_next
-- When the next one is due.
SELECT min(due_ms) FROM headrace_schedule
 WHERE flow IN (SELECT value FROM json_each(:flows)) AND paused = 0 AND origin <> 'undeclared'

-- schedule_advance
-- One compare-and-set: the schedule is as it was seen when its fires were decided.
UPDATE headrace_schedule
   SET handled_ms = :handled_ms, due_ms = :due_ms, missed = missed + :missed,
       asked_ms = CASE WHEN asked_ms IN (SELECT value FROM json_each(:moments)) THEN NULL ELSE asked_ms END
 WHERE name = :name AND revision = :revision AND handled_ms = :seen_ms
RETURNING overlap, last_job

-- fire_insert
-- One moment, once.
INSERT INTO headrace_fire (schedule, moment_ms, outcome, job, reason, manual, fired_at)
VALUES (:schedule, :moment_ms, :outcome, :job, :reason, :manual, :now)

-- fire_known
-- Whether a moment has its row.
SELECT 1 FROM headrace_fire WHERE schedule = :schedule AND moment_ms = :moment_ms

-- schedule_last_job
-- The job that the next fire may have to wait for.
UPDATE headrace_schedule SET last_job = :job WHERE name = :name

-- job_is_open
-- Whether a job has an open generation.
SELECT state = 'open' FROM headrace_job WHERE id = :job

-- fires_prune
-- A few fires that are past their time: more go than come, and a clock that is far ahead takes few with it.
DELETE FROM headrace_fire WHERE schedule = :schedule AND moment_ms IN (
    SELECT moment_ms FROM headrace_fire WHERE schedule = :schedule AND moment_ms < :before_ms ORDER BY moment_ms LIMIT 2)

-- fires_of
-- The rows of some moments.
SELECT moment_ms, outcome, job, reason, manual, fired_at FROM headrace_fire
 WHERE schedule = :schedule AND moment_ms IN (SELECT value FROM json_each(:moments)) ORDER BY moment_ms

-- schedule_list
-- All schedules as people see them, or one.
SELECT s.name, s.flow, s.timetable, s.tz, s.payload, s.stage, s.misfire, s.overlap, s.jitter_s, s.tenant, s.origin,
       s.paused,
       EXISTS (SELECT 1 FROM headrace_schedule_worker sw JOIN headrace_worker w ON w.id = sw.worker
                WHERE sw.flow = s.flow AND w.boot = :boot AND w.seen >= :now - w.hold_s),
       s.handled_ms, s.asked_ms, s.missed
  FROM headrace_schedule s WHERE :name IS NULL OR s.name = :name ORDER BY s.name

-- fires_newest
-- The newest fires of a schedule.
SELECT moment_ms, outcome, job, reason, manual, fired_at FROM headrace_fire
 WHERE schedule = :schedule ORDER BY moment_ms DESC LIMIT :count_max
