-- name: run_begin
INSERT INTO job_history (job_id, run_id, worker_id, fencing_token, start_at, status)
VALUES (:job_id, :run_id, :worker_id, :fencing_token, :start_at, :status)
ON CONFLICT DO NOTHING;

-- name: run_end
UPDATE job_history SET end_at = :end_at, status = :status WHERE job_id = :job_id AND run_id = :run_id;

-- name: runs
-- One page of a job's runs, in the order of their ids.
SELECT run_id, worker_id, fencing_token, start_at AS "start_at [time]", end_at AS "end_at [time]", status
  FROM job_history
 WHERE job_id = :job_id AND run_id > :after
 ORDER BY run_id
 LIMIT :room;
