-- name: pending_due
-- What is due in a bucket, the earliest first.
SELECT scheduled_time AS "scheduled_time [time]", job_id
  FROM jobs_pending_by_bucket
 WHERE bucket_id = :bucket_id AND scheduled_time > :after AND scheduled_time <= :until
 ORDER BY scheduled_time, job_id
 LIMIT :room;

-- name: pending_scan
-- One page of a bucket's pending rows in order of their times.
SELECT scheduled_time AS "scheduled_time [time]", job_id
  FROM jobs_pending_by_bucket
 WHERE bucket_id = :bucket_id AND (scheduled_time, job_id) > (:after_time, :after_id) AND scheduled_time <= :until
 ORDER BY scheduled_time, job_id
 LIMIT :room;

-- name: pending_row
-- The row again, under the lock.
SELECT payload, payload_us
  FROM jobs_pending_by_bucket
 WHERE bucket_id = :bucket_id AND scheduled_time = :scheduled_time AND job_id = :job_id;

-- name: pending_add
INSERT INTO jobs_pending_by_bucket (bucket_id, scheduled_time, job_id, payload, payload_us)
VALUES (:bucket_id, :scheduled_time, :job_id, :payload, :written_us)
ON CONFLICT DO NOTHING;

-- name: pending_delete
-- Above the write time of the row: one that was written by a clock that is ahead is deleted as well.
DELETE FROM jobs_pending_by_bucket
 WHERE bucket_id = :bucket_id AND scheduled_time = :scheduled_time AND job_id = :job_id AND payload_us <= :written_us;

-- name: pending_buckets
-- One page of the buckets, each found behind the one before: no row of a bucket but its first is read.
WITH RECURSIVE found (bucket_id) AS (
    SELECT min(bucket_id) FROM jobs_pending_by_bucket WHERE bucket_id > :after
     UNION ALL
    SELECT (SELECT min(bucket_id) FROM jobs_pending_by_bucket AS behind WHERE behind.bucket_id > found.bucket_id)
      FROM found
     WHERE found.bucket_id IS NOT NULL AND found.bucket_id < :before
)
SELECT bucket_id, bucket_id FROM found WHERE bucket_id IS NOT NULL AND bucket_id < :before LIMIT :room;

-- name: overdue_mark
INSERT INTO jobs_overdue (bucket_id, first_time, last_time) VALUES (:bucket_id, :first_time, :last_time)
ON CONFLICT (bucket_id) DO UPDATE SET first_time = excluded.first_time, last_time = excluded.last_time;

-- name: overdue_marks
SELECT bucket_id, first_time AS "first_time [time]", last_time AS "last_time [time]" FROM jobs_overdue;
