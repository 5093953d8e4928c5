-- name: job_open
INSERT INTO matching_job (job_id, seed, wish, created_at) VALUES (:job, :seed, :wish, :now)
    ON CONFLICT (seed) DO NOTHING

-- name: job_of_seed
SELECT job_id FROM matching_job WHERE seed = :seed

-- name: job
SELECT job_id, state, phase, generation, wish, missing, created_at, ended_at
  FROM matching_job WHERE job_id = :job

-- name: jobs_newest
SELECT job_id, state, phase, wish, created_at, ended_at FROM matching_job
 WHERE (:state::text = '' OR state = :state) AND (:phase::text = '' OR phase = :phase)
   AND (created_at, job_id) < (:before, :before_job)
 ORDER BY created_at DESC, job_id DESC LIMIT :limit

-- name: jobs_known
-- Which of these there are.
SELECT job_id FROM matching_job WHERE job_id = ANY (:jobs::text[])

-- name: job_advance
-- Only the barrier that comes next for a job that runs moves its phase.
UPDATE matching_job
   SET phase = :phase, rank = :rank,
       state = CASE WHEN :ends::boolean THEN 'completed' ELSE state END,
       ended_at = CASE WHEN :ends::boolean THEN :now ELSE ended_at END
 WHERE job_id = :job AND state = 'running' AND rank = :rank - 1 AND generation = :generation

-- name: job_fail
UPDATE matching_job SET state = 'failed', missing = :missing, owed = '', ended_at = :now
 WHERE job_id = :job AND state = 'running' AND rank = :rank AND passage <= :passage

-- name: job_cancel
UPDATE matching_job SET state = 'cancelled', owed = 'cancel', ended_at = :now WHERE job_id = :job AND state = 'running'

-- name: job_resume
UPDATE matching_job SET state = 'running', generation = :generation, passage = :passage, missing = '[]', owed = 'resume',
       ended_at = NULL
 WHERE job_id = :job AND state = 'failed' AND generation = :generation - 1

-- name: job_standing
SELECT state, rank, generation, passage FROM matching_job WHERE job_id = :job

-- name: jobs_owed
-- What the engine has not been told of yet.
SELECT job_id, owed, passage FROM matching_job WHERE owed <> '' ORDER BY job_id LIMIT :limit

-- name: job_settled
UPDATE matching_job SET owed = '' WHERE job_id = :job AND owed = :owed AND passage = :passage
