-- name: dead_add
INSERT INTO jobs_dlq (job_id, attempts, last_error, last_attempt_at, payload, error_class, stack, correlation_id)
VALUES (:job_id, :attempts, :last_error, :last_attempt_at, :payload, :error_class, :stack, :correlation_id)
ON CONFLICT (job_id) DO UPDATE
   SET attempts = excluded.attempts, last_error = excluded.last_error, last_attempt_at = excluded.last_attempt_at,
       payload = excluded.payload, error_class = excluded.error_class, stack = excluded.stack,
       correlation_id = excluded.correlation_id;

-- name: dead_row
SELECT job_id, attempts, last_error, last_attempt_at AS "last_attempt_at [time]", payload, error_class, stack,
       correlation_id
  FROM jobs_dlq
 WHERE job_id = :job_id;

-- name: dead_first
SELECT job_id, attempts, last_error, last_attempt_at AS "last_attempt_at [time]", payload, error_class, stack,
       correlation_id
  FROM jobs_dlq
 ORDER BY job_id
 LIMIT :room;

-- name: dead_after
-- In the order of the ids.
SELECT job_id, attempts, last_error, last_attempt_at AS "last_attempt_at [time]", payload, error_class, stack,
       correlation_id
  FROM jobs_dlq
 WHERE job_id > :after
 ORDER BY job_id
 LIMIT :room;

-- name: dead_places
-- One page of dead jobs, by where they lie: payloads are not read.
SELECT job_id FROM jobs_dlq WHERE job_id > CAST(:after AS text) ORDER BY job_id LIMIT :room;

-- name: dead_delete
DELETE FROM jobs_dlq WHERE job_id = :job_id;
