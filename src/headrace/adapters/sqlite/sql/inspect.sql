-- job_view
-- One job for people.
SELECT id, tenant, flow, state, generation, priority, paused, submitted_at, ended_at, key, graph
  FROM headrace_job WHERE id = :job

-- job_list
-- Jobs, newest first: ids sort by time of making.
SELECT id, tenant, flow, state, generation, priority, paused, submitted_at, ended_at, key, graph FROM headrace_job
 WHERE (:tenant IS NULL OR tenant = :tenant) AND (:flow IS NULL OR flow = :flow)
   AND (:state IS NULL OR state = :state) AND (:before IS NULL OR id < :before)
   AND (:part IS NULL OR substr(id, 1, length(:part)) = :part OR substr(id, -length(:part)) = :part)
 ORDER BY id DESC LIMIT :limit

-- tally_open
-- What open chunks add to the folded counts, by stage.
SELECT position, sum(CASE WHEN fresh THEN count ELSE 0 END), sum(count - next), sum(done), sum(dead), sum(cancelled)
  FROM headrace_chunk_state WHERE job = :job AND generation = :generation AND open = 1 GROUP BY position

-- tally_claims
-- What live claims add to the chunks they belong to, by stage.
SELECT s.position, sum(k.hi - k.lo - k.done - k.dead - k.cancelled - k.moved), sum(k.done), sum(k.dead),
       sum(k.cancelled)
  FROM headrace_chunk_state s JOIN headrace_claim k ON k.chunk = s.id
 WHERE s.job = :job AND s.generation = :generation AND s.open = 1 AND k.live = 1 GROUP BY s.position

-- items_fresh
-- Chunks that hold payloads of one stage, in order of seq, from one on.
SELECT s.id, s.generation, s.count, s.next, s.attempt, s.low, s.high,
       iif(s.ready <> 3 AND s.due_at > :now, s.due_at, NULL)
  FROM headrace_chunk_state s JOIN headrace_chunk c ON c.id = s.id
 WHERE s.job = :job AND s.position = :position AND s.staged IS NULL AND c.origin IS NULL AND c.seqs IS NULL
   AND s.id >= :first ORDER BY s.id LIMIT :chunks

-- items_carried
-- Chunks that carry on items of a payload chunk, oldest first.
SELECT s.id, s.generation, s.count, s.next, s.attempt, s.low, s.high,
       iif(s.ready <> 3 AND s.due_at > :now, s.due_at, NULL)
  FROM headrace_chunk c JOIN headrace_chunk_state s ON s.id = c.id
 WHERE c.origin = :id ORDER BY s.id

-- items_redriven
-- Chunks of redriven items of one stage, oldest first.
SELECT s.id, s.generation, s.count, s.next, s.attempt, s.low, s.high,
       iif(s.ready <> 3 AND s.due_at > :now, s.due_at, NULL)
  FROM headrace_chunk_state s JOIN headrace_chunk c ON c.id = s.id
 WHERE s.job = :job AND s.position = :position AND s.generation > 1 AND c.seqs IS NOT NULL ORDER BY s.id

-- items_dead
-- Which items of one stage died, by generation.
SELECT generation, seq FROM headrace_dead WHERE job = :job AND position = :position AND seq BETWEEN :first AND :last

-- claims_of_chunk
-- Live claims of a chunk, with what they have settled.
SELECT lo, hi, low, high FROM headrace_claim WHERE chunk = :id AND live = 1

-- dead_list
-- Dead letters for people, newest first.
SELECT job, generation, stage, seq, key, reason, rule, error, fingerprint, attempts, died_at, redriven_in, payload,
       traceback
  FROM headrace_dead
 WHERE redriven_in IS NULL
   AND (:tenant IS NULL OR tenant = :tenant) AND (:job IS NULL OR job = :job) AND (:flow IS NULL OR flow = :flow)
   AND (:stage IS NULL OR stage = :stage) AND (:reason IS NULL OR reason = :reason)
   AND (:rule IS NULL OR rule = :rule) AND (:fingerprint IS NULL OR fingerprint = :fingerprint)
   AND (:seq IS NULL OR seq = :seq)
 ORDER BY died_at DESC, job DESC, generation DESC, position DESC, seq DESC LIMIT :limit

-- finish_list
-- The finish lines of a job.
SELECT job, generation, state, event_id, crossed_at FROM headrace_finish WHERE job = :job ORDER BY generation

-- worker_list
-- Workers with what they hold.
SELECT w.id, w.host, w.pid, (SELECT count(*) FROM headrace_claim k WHERE k.live = 1 AND k.worker = w.id), :now - w.seen
  FROM headrace_worker w WHERE w.boot = :boot AND w.seen >= :now - w.hold_s ORDER BY w.id

-- audit_stages
-- All tallies of a job, as stored.
SELECT generation, position, name, feeders_open, total, done, dead, cancelled, closed_at IS NOT NULL, redriven
  FROM headrace_stage WHERE job = :job ORDER BY generation, position

-- audit_chunks
-- All chunks of a job, without payloads.
SELECT id, generation, position, fresh, staged IS NOT NULL, count, next, done, dead, cancelled, moved, low, high, open
  FROM headrace_chunk_state WHERE job = :job ORDER BY id

-- audit_claims
-- All remembered claims of a job.
SELECT k.fence, k.chunk, k.lo, k.hi, k.done, k.dead, k.cancelled, k.moved, k.low, k.high, k.live
  FROM headrace_chunk_state s JOIN headrace_claim k ON k.chunk = s.id WHERE s.job = :job ORDER BY k.fence

-- audit_dead
-- All dead letters of a job, by place.
SELECT generation, position, seq, redriven_in FROM headrace_dead WHERE job = :job ORDER BY generation, position, seq

-- audit_events
-- Completed events of a job.
SELECT generation FROM headrace_event WHERE job = :job AND topic = 'job.completed' ORDER BY id

-- audit_job
-- Where a job stands.
SELECT generation, state, pruned, purged, graph FROM headrace_job WHERE id = :job
