-- claim_held
-- A claim with the state of its chunk and job, in one read.
SELECT k.fence, k.chunk, k.lo, k.hi, k.alone, k.hold_s, k.live, k.step, k.boot, k.until,
       k.done, k.dead, k.cancelled, k.moved, k.low, k.high,
       s.job, s.generation, s.position, s.queue, s.tenant, s.priority, s.attempt, s.crashes, s.fresh, s.depth,
       s.gate, s.count, s.revokes, j.flow, j.graph
  FROM headrace_claim k JOIN headrace_chunk_state s ON s.id = k.chunk JOIN headrace_job j ON j.id = s.job
 WHERE k.fence = :fence

-- claim_answered
-- The last step of a claim, also when its job's chunks have gone.
SELECT step FROM headrace_claim WHERE fence = :fence

-- claim_step
-- A settlement that leaves its claim open counts in the claim alone.
UPDATE headrace_claim SET hi = :hi, step = :step, done = :done, dead = :dead, cancelled = :cancelled, moved = :moved,
       low = :low, high = :high
 WHERE fence = :fence

-- claim_end
-- The claim is over; it is remembered for a while, so that a repeat gets the first answer.
UPDATE headrace_claim SET live = 0, hi = :hi, step = :step, done = :done, dead = :dead, cancelled = :cancelled,
       moved = :moved,
       low = :low, high = :high, forget_at = :forget_at
 WHERE fence = :fence

-- chunk_ends
-- The bit planes and the mark of a chunk, before a claim folds into them.
SELECT low, high, next, count, done + dead + cancelled + moved FROM headrace_chunk_state WHERE id = :id

-- chunk_back
-- Items that were granted last and never started wait again in place.
UPDATE headrace_chunk_state SET next = :next, ready = (gate = 0) WHERE id = :id

-- chunk_fold
-- What a claim counted becomes part of its chunk; the fold that completes the chunk ends it.
UPDATE headrace_chunk_state SET
       done = done + :done, dead = dead + :dead, cancelled = cancelled + :cancelled, moved = moved + :moved,
       low = :low, high = :high, next = :next,
       ready = CASE WHEN :next < count AND gate = 0 THEN 1 ELSE 0 END,
       open = done + dead + cancelled + moved + :done + :dead + :cancelled + :moved < count
 WHERE id = :id
RETURNING open, ready

-- stage_fold
-- Only the settlement that ends a chunk touches the tally, and it brings the chunk's own counts.
UPDATE headrace_stage AS stage SET
       total = stage.total + CASE WHEN s.fresh THEN s.count ELSE 0 END,
       done = stage.done + s.done, dead = stage.dead + s.dead, cancelled = stage.cancelled + s.cancelled
  FROM headrace_chunk_state s
 WHERE s.id = :id AND stage.job = s.job AND stage.generation = s.generation AND stage.position = s.position
RETURNING dead, total, feeders_open

-- stage_close
-- Only a sealed stage in which nothing is open and everything counted has ended crosses its line.
UPDATE headrace_stage SET closed_at = :now
 WHERE job = :job AND generation = :generation AND position = :position
   AND feeders_open = 0 AND closed_at IS NULL AND done + dead + cancelled = total
   AND NOT EXISTS (SELECT 1 FROM headrace_chunk_state s
        WHERE s.job = :job AND s.generation = :generation AND s.position = :position AND s.open = 1)
RETURNING position

-- feeder_closed
-- One feeder less; at zero the stage is sealed.
UPDATE headrace_stage SET feeders_open = feeders_open - 1
 WHERE job = :job AND generation = :generation AND position = :position
RETURNING feeders_open

-- stages_open
-- One open stage less in this generation.
UPDATE headrace_job SET stages_open = stages_open - 1 WHERE id = :job RETURNING stages_open

-- stage_sealed
-- Whether nobody may add to a stage any more.
SELECT feeders_open = 0 FROM headrace_stage WHERE job = :job AND generation = :generation AND position = :position

-- stage_tallies
-- The folded counts of every stage of one generation.
SELECT position, name, total, done, dead, cancelled, feeders_open, closed_at FROM headrace_stage
 WHERE job = :job AND generation = :generation ORDER BY position

-- stage_sums
-- The folded counts of every stage over all generations; what was redriven counts where it came to.
SELECT position, sum(total) - sum(redriven), sum(done), sum(dead) - sum(redriven), sum(cancelled) FROM headrace_stage
 WHERE job = :job GROUP BY position ORDER BY position

-- stage_history
-- The folded counts of every stage before a generation, and what each generation up to it took up again.
SELECT name, generation, total, done, dead, cancelled, redriven FROM headrace_stage
 WHERE job = :job AND generation <= :generation ORDER BY generation

-- stage_size
-- Items of a stage that are not folded yet.
SELECT coalesce(sum(count), 0) FROM headrace_chunk_state
 WHERE job = :job AND generation = :generation AND position = :position AND open = 1 AND fresh = 1

-- job_flags
-- What a closing stage needs to know about its job.
SELECT tenant, flow, graph, priority, paused, cancelled, keep_s FROM headrace_job AS job WHERE id = :job

-- finish_insert
-- The finish line: one row, once.
INSERT INTO headrace_finish (job, generation, state, event_id, crossed_at)
VALUES (:job, :generation, :state, :event_id, :now)

-- event_insert
-- The outbox row that goes with a change.
INSERT INTO headrace_event (event_id, topic, job, generation, body, happened_at)
VALUES (:event_id, :topic, :job, :generation, :body, :now)

-- job_end
-- The job's state follows its finish line.
UPDATE headrace_job SET state = :state, ended_at = :now, prune_at = :now + keep_s, paused = 0 WHERE id = :job

-- dead_insert
-- A dead letter with all it needs to live again.
INSERT INTO headrace_dead (job, generation, position, seq, tenant, flow, stage, key, reason, rule, error, fingerprint,
                  attempts, died_at, depth, revokes, payload, traceback)
VALUES (:job, :generation, :position, :seq, :tenant, :flow, :stage, :key, :reason, :rule, :error, :fingerprint,
        :attempts, :now, :depth, :revokes, :payload, :traceback)

-- dead_taken_up
-- The dead letter that the one item of a barrier or external stage goes on from in this generation.
SELECT seq, revokes FROM headrace_dead WHERE job = :job AND position = :position AND redriven_in = :generation
 ORDER BY generation DESC LIMIT 1

-- dead_put_back
-- A stage that did not open took up nothing.
UPDATE headrace_dead SET redriven_in = NULL WHERE job = :job AND position = :position AND redriven_in = :generation

-- stage_redriven
-- How many dead letters a generation took up in a stage.
UPDATE headrace_stage SET redriven = :redriven WHERE job = :job AND generation = :generation AND position = :position

-- cursor_put
-- Where a streaming item will resume.
INSERT INTO headrace_cursor (job, generation, position, seq, cursor)
VALUES (:job, :generation, :position, :seq, :cursor)
    ON CONFLICT DO UPDATE SET cursor = excluded.cursor

-- cancels_of
-- Items that are to end cancelled where they would return.
SELECT seq FROM headrace_item_cancel
 WHERE job = :job AND generation = :generation AND position = :position AND seq BETWEEN :first AND :last
