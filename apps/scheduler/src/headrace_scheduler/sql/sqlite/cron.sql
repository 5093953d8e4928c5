-- name: cron_add
INSERT INTO cron_schedules (schedule_id, expression, time_zone, misfire, days_out, payload, max_duration_seconds,
                            callback_url, correlation_id, created_at, paused, handled_at, revision, tenant, priority,
                            calendars)
VALUES (:schedule_id, :expression, :time_zone, :misfire, :days_out, :payload, :max_duration_seconds,
        :callback_url, :correlation_id, :created_at, 0, :created_at, 1, :tenant, :priority, :calendars)
ON CONFLICT DO NOTHING
RETURNING 1;

-- name: cron_all
-- Every schedule without its payload: there are few, and whoever fires looks at all of them.
SELECT schedule_id, expression, time_zone, misfire, days_out, calendars, created_at AS "created_at [time]",
       tenant, priority, handled_at AS "handled_at [time]", open_at AS "open_at [time]", paused, revision
  FROM cron_schedules;

-- name: cron_row
SELECT schedule_id, expression, time_zone, misfire, days_out, calendars, created_at AS "created_at [time]",
       tenant, priority, handled_at AS "handled_at [time]", open_at AS "open_at [time]", paused, revision
  FROM cron_schedules
 WHERE schedule_id = :schedule_id;

-- name: cron_job
SELECT payload, tenant, priority, max_duration_seconds, callback_url, correlation_id
  FROM cron_schedules
 WHERE schedule_id = :schedule_id;

-- name: cron_claim
-- One decides on a moment: whoever has seen the same marks and comes second is refused.
UPDATE cron_schedules SET handled_at = :handled_at, open_at = :open_at
 WHERE schedule_id = :schedule_id AND handled_at = :seen AND open_at IS NULL AND revision = :revision
RETURNING 1;

-- name: cron_confirm
UPDATE cron_schedules SET open_at = NULL WHERE schedule_id = :schedule_id AND open_at = :moment
RETURNING 1;

-- name: cron_change
UPDATE cron_schedules SET paused = :paused, handled_at = :handled_at, revision = :next
 WHERE schedule_id = :schedule_id AND revision = :revision AND handled_at = :seen
RETURNING 1;

-- name: cron_delete
-- Not while a job is still to be created: what has fired is not taken back by half.
DELETE FROM cron_schedules WHERE schedule_id = :schedule_id AND revision = :revision AND open_at IS NULL
RETURNING 1;

-- name: fire_add
INSERT INTO cron_fires (schedule_id, moment, job_id, fired_at) VALUES (:schedule_id, :moment, :job_id, :fired_at)
ON CONFLICT DO NOTHING
RETURNING 1;

-- name: fire_row
SELECT job_id, fired_at AS "fired_at [time]" FROM cron_fires WHERE schedule_id = :schedule_id AND moment = :moment;

-- name: fires_latest
SELECT moment AS "moment [time]", job_id, fired_at AS "fired_at [time]"
  FROM cron_fires
 WHERE schedule_id = :schedule_id
 ORDER BY moment DESC
 LIMIT :room;

-- name: fires_delete
DELETE FROM cron_fires WHERE schedule_id = :schedule_id AND moment < :before;

-- name: fire_pending_add
-- Only for a job that nobody has touched since the fire: a row that is gone leaves no tombstone here.
INSERT INTO jobs_pending_by_bucket (bucket_id, scheduled_time, job_id, payload, payload_us)
SELECT bucket_id, scheduled_time, job_id, :payload, :written_us
  FROM jobs_sharded
 WHERE bucket_id = :bucket_id AND scheduled_time = :scheduled_time AND job_id = :job_id AND status_us = :written_us
ON CONFLICT DO NOTHING;
