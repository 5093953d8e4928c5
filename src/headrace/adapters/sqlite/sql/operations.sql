-- job_row
-- A job as operators see it.
SELECT id, tenant, flow, graph, priority, state, generation, paused, cancelled FROM headrace_job WHERE id = :job

-- job_cancel
-- The job ends cancelled once everything held has ended; 2 is a stop because too much died.
UPDATE headrace_job SET cancelled = :cancelled WHERE id = :job

-- chunks_open
-- Open chunks of a job, in the order in which locks are taken everywhere.
SELECT id, position, count, next, high, gate FROM headrace_chunk_state
 WHERE job = :job AND generation = :generation AND open = 1 ORDER BY id

-- job_pause
-- The flag that chunks sent from now on inherit.
UPDATE headrace_job SET paused = :paused WHERE id = :job

-- chunks_pause
-- Nothing of this job is granted from here on.
UPDATE headrace_chunk_state SET gate = 1, ready = CASE ready WHEN 3 THEN 3 ELSE 0 END
 WHERE job = :job AND generation = :generation AND open = 1 AND gate = 0

-- chunks_resume
-- What waits can be claimed again, when it is due.
UPDATE headrace_chunk_state SET gate = 0,
       ready = CASE WHEN ready = 3 THEN 3 WHEN next >= count THEN 0 WHEN due_at > :now THEN 2 ELSE 1 END
 WHERE job = :job AND generation = :generation AND open = 1 AND gate = 1

-- chunks_of_stage
-- Chunks of one stage, newest generation first.
SELECT s.id, s.generation, s.count, s.next, s.low, s.high, s.open, s.gate
  FROM headrace_chunk_state s WHERE s.job = :job AND s.position = :position AND s.staged IS NULL ORDER BY s.id DESC

-- item_cancel_insert
-- A held item is cancelled where it would return.
INSERT OR IGNORE INTO headrace_item_cancel (job, generation, position, seq) VALUES (:job, :generation, :position, :seq)

-- chunk_split
-- All waiting items leave this chunk: one ended, the others moved.
UPDATE headrace_chunk_state SET next = count, ready = 0, cancelled = cancelled + 1, moved = moved + :moved,
       low = :low, high = :high, open = done + dead + cancelled + moved + 1 + :moved < count
 WHERE id = :id
RETURNING open

-- dead_match
-- Dead letters by filter, oldest first, so that a redrive keeps their order.
SELECT job, generation, position, seq, key, payload, depth, revokes FROM headrace_dead
 WHERE redriven_in IS NULL
   AND job BETWEEN coalesce(:job, '') AND coalesce(:job, char(0x10FFFF))
   AND (:tenant IS NULL OR tenant = :tenant) AND (:flow IS NULL OR flow = :flow)
   AND (:stage IS NULL OR stage = :stage) AND (:reason IS NULL OR reason = :reason)
   AND (:rule IS NULL OR rule = :rule) AND (:fingerprint IS NULL OR fingerprint = :fingerprint)
   AND (:seq IS NULL OR seq = :seq)
 ORDER BY job, position, seq LIMIT :limit

-- dead_redriven
-- The letter stays, marked with the generation that took it up.
UPDATE headrace_dead SET redriven_in = :redriven_in
 WHERE job = :job AND generation = :generation AND position = :position AND seq = :seq

-- cursor_redriven
-- What a streaming item has made visible stays: it goes on from there.
INSERT INTO headrace_cursor (job, generation, position, seq, cursor)
SELECT job, :redriven_in, position, seq, cursor FROM headrace_cursor
 WHERE job = :job AND generation = :generation AND position = :position AND seq = :seq

-- dead_delete
-- Forget one dead letter.
DELETE FROM headrace_dead WHERE job = :job AND generation = :generation AND position = :position AND seq = :seq

-- job_reopen
-- A redrive opens the next generation.
UPDATE headrace_job SET state = 'open', generation = :generation, stages_open = :stages, cancelled = 0, ended_at = NULL,
       prune_at = NULL
 WHERE id = :job

-- external_arrive
-- An event for an external stage, once per event id; the first one that finds the stage open counts.
INSERT OR IGNORE INTO headrace_external_event (job, position, event_id, arrived_at, first)
SELECT :job, :position, :event_id, :now, closed_at IS NULL
       AND NOT EXISTS (SELECT 1
         FROM headrace_external_event e WHERE e.job = :job AND e.position = :position AND e.first = 1)
  FROM headrace_stage WHERE job = :job AND generation = :generation AND position = :position
RETURNING first

-- external_arrived
-- Whether the event came before its stage opened.
SELECT 1 FROM headrace_external_event WHERE job = :job AND position = :position LIMIT 1

-- external_waiting
-- The one open item of an external stage.
SELECT id FROM headrace_chunk_state
 WHERE job = :job AND generation = :generation AND position = :position AND open = 1 AND ready = 3

-- external_end
-- The item of an external stage ends.
UPDATE headrace_chunk_state SET next = 1, ready = 0, done = :done, dead = 1 - :done, low = :low, high = :high, open = 0
 WHERE id = :id
RETURNING job, generation, position

-- chunk_place
-- Under which conditions a chunk waits.
SELECT queue, tenant, priority, gate, depth, attempt, crashes, suspect, due_at, low, high, ready, revokes
  FROM headrace_chunk_state WHERE id = :id

-- job_purged
-- From now on there are fewer dead letters than the tallies say.
UPDATE headrace_job SET purged = 1 WHERE id = :job
