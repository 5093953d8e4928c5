-- chunk_insert
-- Payloads, written once.
INSERT INTO headrace_chunk (payload, ends, keys, origin, picks, seqs)
VALUES (:payload, :ends, :keys, :origin, :picks, :seqs) RETURNING id

-- chunk_state_insert
-- The narrow row beside a chunk.
INSERT INTO headrace_chunk_state (id, job, generation, position, queue, tenant, priority, due_at, attempt, crashes,
                                  suspect, fresh, depth, count, gate, ready, open, revokes, staged, number, staged_at)
VALUES (:id, :job, :generation, :position, :queue, :tenant, :priority, :due_at, :attempt, :crashes, :suspect,
        :fresh, :depth, :count, :gate, :ready, :open, :revokes, :staged, :number, :staged_at)

-- chunk_cancel_waiting
-- Waiting items end cancelled at once, behind a closed gate.
UPDATE headrace_chunk_state SET gate = 2, ready = 0, next = count, cancelled = cancelled + (count - next), high = :high,
       open = done + dead + cancelled + moved + (count - next) < count
 WHERE id = :id
RETURNING open

-- staged_of
-- What an owner staged, in order; while staged, queue is the stage's name and due_at the delay.
SELECT id, number, queue, due_at, depth FROM headrace_chunk_state WHERE staged = :owner ORDER BY number

-- staged_flip
-- A staged chunk becomes part of the account.
UPDATE headrace_chunk_state SET staged = NULL, number = NULL, staged_at = NULL, job = :job, generation = :generation,
       position = :position, queue = :queue, tenant = :tenant, priority = :priority, due_at = :due_at, gate = :gate,
       ready = :ready, open = 1
 WHERE id = :id

-- chunk_state_drop
-- What was never flipped was never there; what is past its retention is no longer.
DELETE FROM headrace_chunk_state WHERE id = :id

-- chunk_drop
-- The payload goes with it.
DELETE FROM headrace_chunk WHERE id = :id

-- staged_abandoned
-- Uploads whose submit never came.
SELECT id FROM headrace_chunk_state WHERE staged IS NOT NULL AND staged_at < :before
   AND NOT EXISTS (SELECT 1 FROM headrace_claim k WHERE k.fence = CAST(staged AS INTEGER) AND k.live = 1) LIMIT 100

-- unique_insert
-- Only a key that was really inserted counts.
INSERT OR IGNORE INTO headrace_unique_key (job, position, key) VALUES (:job, :position, :key) RETURNING 1

-- graph_insert
-- Graphs are shared by the jobs of one code version.
INSERT OR IGNORE INTO headrace_graph (digest, body) VALUES (:digest, :body)

-- job_by_id
-- The job a repeated submission refers to.
SELECT id, digest FROM headrace_job WHERE id = :job

-- job_by_key
-- The job an idempotency key refers to.
SELECT id, digest FROM headrace_job WHERE tenant = :tenant AND flow = :flow AND key = :key

-- job_insert
-- A job opens in generation 1.
INSERT INTO headrace_job (id, tenant, flow, graph, priority, state, generation, stages_open, submitted_at, keep_s,
                          key, digest)
VALUES (:job, :tenant, :flow, :graph, :priority, 'open', 1, :stages, :now, :keep_s, :key, :digest)

-- stage_insert
-- A tally of a generation, empty.
INSERT INTO headrace_stage (job, generation, position, name, feeders_open)
VALUES (:job, :generation, :position, :name, :feeders)
