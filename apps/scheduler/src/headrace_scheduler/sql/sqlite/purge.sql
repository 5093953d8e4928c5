-- name: runs_delete
DELETE FROM job_history WHERE job_id = :job_id;

-- name: job_forget
DELETE FROM jobs_by_id WHERE job_id = :job_id AND written_us <= :written_us;

-- name: tokens_delete
-- The engine keeps the fences of its leases for ever.
SELECT 0 WHERE :resource IS NULL;

-- name: job_range_delete
-- What was inserted meanwhile has not ended; the times by which Cassandra tells that need not be compared.
DELETE FROM jobs_sharded
 WHERE bucket_id = :bucket_id AND (scheduled_time, job_id) > (:after_time, :after_id)
   AND (scheduled_time, job_id) <= (:last_time, :last_id)
   AND status IN ('completed', 'cancelled', 'dlq') AND :written_us > 0;

-- name: audit_days
SELECT DISTINCT day FROM audit_events;

-- name: audit_delete
DELETE FROM audit_events WHERE day = :day;
