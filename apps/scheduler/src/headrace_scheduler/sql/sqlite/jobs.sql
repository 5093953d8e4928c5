-- name: job_where
-- Where the job's row is, and what was asked for with it.
SELECT bucket_id, scheduled_time AS "scheduled_time [time]", max_duration_seconds, callback_url, correlation_id,
       suspect, alone_token, crash_tokens, cancel_asked_at AS "cancel_asked_at [time]"
  FROM jobs_by_id
 WHERE job_id = :job_id;

-- name: job_row
-- The row itself, with the time of its status.
SELECT payload, status, attempts, status_us
  FROM jobs_sharded
 WHERE bucket_id = :bucket_id AND scheduled_time = :scheduled_time AND job_id = :job_id;

-- name: job_add
-- Always with the same write time for one job: a repeat cannot undo what has happened since.
INSERT INTO jobs_sharded (bucket_id, scheduled_time, job_id, payload, status, attempts, status_us)
VALUES (:bucket_id, :scheduled_time, :job_id, :payload, :status, 0, :written_us)
ON CONFLICT DO NOTHING;

-- name: job_register
-- The lookup of a job: ours when it is created, anybody else's when it is first seen.
INSERT INTO jobs_by_id (job_id, bucket_id, scheduled_time, pending_time, max_duration_seconds, callback_url,
                        correlation_id, payload_type, written_us)
VALUES (:job_id, :bucket_id, :scheduled_time, :pending_time, :max_duration_seconds, :callback_url, :correlation_id,
        :payload_type, :written_us)
ON CONFLICT DO NOTHING;

-- name: job_status
-- Above the write time of the status before, so that no clock that is ahead keeps an earlier one.
UPDATE jobs_sharded
   SET status = :status, attempts = :attempts, status_us = :written_us
 WHERE bucket_id = :bucket_id AND scheduled_time = :scheduled_time AND job_id = :job_id AND status_us <= :written_us;

-- name: job_scan
-- One page of a bucket's jobs in order of their times.
SELECT scheduled_time AS "scheduled_time [time]", job_id, status, attempts, status_us
  FROM jobs_sharded
 WHERE bucket_id = :bucket_id AND (scheduled_time, job_id) > (:after_time, :after_id) AND scheduled_time <= :until
 ORDER BY scheduled_time, job_id
 LIMIT :room;

-- name: job_scan_back
-- One page of a bucket's jobs, the latest first.
SELECT scheduled_time AS "scheduled_time [time]", job_id, status, attempts, status_us
  FROM jobs_sharded
 WHERE bucket_id = :bucket_id AND (scheduled_time, job_id) < (:before_time, :before_id) AND scheduled_time >= :since
 ORDER BY scheduled_time DESC, job_id DESC
 LIMIT :room;

-- name: job_buckets
-- One page of the buckets, each found behind the one before: no row of a bucket but its first is read.
WITH RECURSIVE found (bucket_id) AS (
    SELECT min(bucket_id) FROM jobs_sharded WHERE bucket_id > :after
     UNION ALL
    SELECT (SELECT min(bucket_id) FROM jobs_sharded AS behind WHERE behind.bucket_id > found.bucket_id)
      FROM found
     WHERE found.bucket_id IS NOT NULL
)
SELECT bucket_id, bucket_id FROM found WHERE bucket_id IS NOT NULL LIMIT :room;

-- name: job_outcome
-- What came of a job so far.
SELECT pending_time AS "pending_time [time]", cancel_asked_at AS "cancel_asked_at [time]", progress, result
  FROM jobs_by_id
 WHERE job_id = :job_id;

-- name: job_summary
-- What a list tells of a job beside its row.
SELECT pending_time AS "pending_time [time]", payload_type, last_error, suspect
  FROM jobs_by_id
 WHERE job_id = :job_id;

-- name: job_error
-- How the job failed last; kept when it runs again.
UPDATE jobs_by_id SET last_error = :last_error, written_us = max(written_us, :written_us) WHERE job_id = :job_id;

-- name: job_pending_time
UPDATE jobs_by_id SET pending_time = :pending_time, written_us = max(written_us, :written_us) WHERE job_id = :job_id;

-- name: job_cancel_ask
UPDATE jobs_by_id SET cancel_asked_at = :cancel_asked_at, written_us = max(written_us, :written_us)
 WHERE job_id = :job_id;

-- name: job_progress
UPDATE jobs_by_id SET progress = :progress, written_us = max(written_us, :written_us) WHERE job_id = :job_id;

-- name: job_result
UPDATE jobs_by_id SET result = :result, written_us = max(written_us, :written_us) WHERE job_id = :job_id;

-- name: job_losses
-- Runs of the job that were lost: the tokens of those that were alone, so that one is counted once however often it is
-- written.
UPDATE jobs_by_id SET suspect = :suspect, crash_tokens = :crash_tokens, written_us = max(written_us, :written_us)
 WHERE job_id = :job_id;

-- name: job_alone
UPDATE jobs_by_id SET alone_token = :alone_token, written_us = max(written_us, :written_us) WHERE job_id = :job_id;
