-- claims_expired
-- Claims whose hold has passed by the store's clock, or that an earlier boot held.
SELECT fence FROM headrace_claim INDEXED BY headrace_claim_live
 WHERE live = 1 AND (until < :now OR boot <> :boot) ORDER BY fence LIMIT 100

-- claims_next_until
-- When the next live claim expires.
SELECT until FROM headrace_claim WHERE live = 1 ORDER BY until LIMIT 1

-- claims_forget
-- Answers are remembered for ten hold times.
DELETE FROM headrace_claim WHERE fence IN (SELECT fence
  FROM headrace_claim WHERE live = 0 AND forget_at < :now LIMIT 500)

-- externals_due
-- External stages whose deadline has passed.
SELECT id, job, generation, position FROM headrace_chunk_state WHERE ready = 3 AND due_at <= :now LIMIT 100

-- prune_start
-- Ended jobs whose chunks are past their retention: from now on only the tallies tell.
UPDATE headrace_job SET pruned = generation, pruning = 1, prune_at = NULL
 WHERE id IN (SELECT id FROM headrace_job WHERE prune_at <= :now ORDER BY prune_at LIMIT 10)

-- pruning
-- A job whose chunks are going, a few at a time.
SELECT id, pruned FROM headrace_job WHERE pruning = 1 ORDER BY id LIMIT 1

-- chunks_of_job
-- A few chunks of a job that is being pruned.
SELECT id FROM headrace_chunk_state WHERE job = :job AND generation <= :pruned LIMIT 200

-- prune_cursors
-- Only an item that may be redriven has a use for where it was.
DELETE FROM headrace_cursor AS cursor WHERE job = :job AND generation <= :pruned
   AND NOT EXISTS (SELECT 1 FROM headrace_dead d WHERE d.job = cursor.job AND d.generation = cursor.generation
        AND d.position = cursor.position AND d.seq = cursor.seq AND d.redriven_in IS NULL)

-- job_pruned
-- Nothing is left of its chunks.
UPDATE headrace_job SET pruning = 0 WHERE id = :job

-- jobs_to_forget
-- Jobs past thirty days after their end.
SELECT id FROM headrace_job WHERE ended_at < :before AND pruned = generation AND pruning = 0 LIMIT 100

-- forget_job
-- The job itself, with its idempotency key.
DELETE FROM headrace_job WHERE id = :job

-- forget_stage
-- Its tallies.
DELETE FROM headrace_stage WHERE job = :job

-- forget_dead
-- Its dead letters.
DELETE FROM headrace_dead WHERE job = :job

-- forget_finish
-- Its finish lines.
DELETE FROM headrace_finish WHERE job = :job

-- forget_event
-- Its events.
DELETE FROM headrace_event WHERE job = :job

-- forget_external
-- Events that its external stages got.
DELETE FROM headrace_external_event WHERE job = :job

-- forget_cursor
-- Where its dead streaming items were.
DELETE FROM headrace_cursor WHERE job = :job

-- forget_item_cancel
-- Items that were to be cancelled.
DELETE FROM headrace_item_cancel WHERE job = :job

-- forget_unique_key
-- The keys its unique stages have seen.
DELETE FROM headrace_unique_key WHERE job = :job
