-- job_views
-- Jobs for people, newest first: ids sort by time of making.
SELECT id, tenant, flow, state, generation, priority, paused, extract(epoch FROM submitted_at)::double precision,
       extract(epoch FROM ended_at)::double precision, key, graph
  FROM headrace.job
 WHERE (%(job)b::text IS NULL OR id = %(job)b) AND (%(tenant)b::text IS NULL OR tenant = %(tenant)b)
   AND (%(flow)b::text IS NULL OR flow = %(flow)b) AND (%(state)b::text IS NULL OR state = %(state)b)
   AND (%(before)b::text IS NULL OR id < %(before)b)
   AND (%(part)b::text IS NULL OR starts_with(id, %(part)b) OR right(id, length(%(part)b)) = %(part)b)
 ORDER BY id DESC LIMIT %(limit)b

-- tallies
-- Tallies as read: stage + open chunks + live claims, in one snapshot.
SELECT s.job, s.generation, s.position, s.name, (s.total + coalesce(c.fresh, 0))::bigint, coalesce(c.waiting,
    0)::bigint,
       coalesce(c.granted, 0)::bigint - coalesce(k.settled, 0)::bigint,
       (s.done + coalesce(c.done, 0) + coalesce(k.done, 0))::bigint, (s.dead + coalesce(c.dead, 0) + coalesce(k.dead,
           0))::bigint,
       (s.cancelled + coalesce(c.cancelled, 0) + coalesce(k.cancelled, 0))::bigint, s.feeders_open = 0,
           s.closed_at IS NOT NULL, s.redriven
  FROM headrace.stage s
  LEFT JOIN LATERAL (
       SELECT sum(o.count) FILTER (WHERE o.fresh) AS fresh, sum(o.count - o.next) AS waiting,
              sum(o.next - o.done - o.dead - o.cancelled - o.moved) AS granted, sum(o.done) AS done,
                  sum(o.dead) AS dead,
              sum(o.cancelled) AS cancelled
         FROM headrace.chunk_state o
        WHERE o.job = s.job AND o.open AND o.generation = s.generation AND o.position = s.position) c ON true
  LEFT JOIN (
       SELECT o.job, o.generation, o.position, sum(l.done + l.dead + l.cancelled + l.moved) AS settled,
           sum(l.done) AS done,
              sum(l.dead) AS dead, sum(l.cancelled) AS cancelled
         FROM headrace.claim l JOIN headrace.chunk_state o ON o.id = l.chunk
        WHERE l.live AND o.job = ANY (%(jobs)b::text[]) GROUP BY 1, 2, 3) k
       ON k.job = s.job AND k.generation = s.generation AND k.position = s.position
 WHERE s.job = ANY (%(jobs)b::text[])
 ORDER BY s.job, s.generation, s.position

-- chunks
-- Chunks of a job with where their items are, oldest first.
SELECT s.id, s.generation, s.position, s.fresh, s.count, s.next, s.done, s.dead, s.cancelled, s.moved, s.low::text,
    s.high::text, s.open,
       s.attempt, coalesce(c.origin, c.id), c.picks, coalesce(p.seqs, c.seqs),
       CASE WHEN s.kind < 2 AND s.due_at > clock_timestamp() THEN extract(epoch FROM s.due_at)::double precision END
  FROM headrace.chunk_state s
  JOIN headrace.chunk c ON c.id = s.id
  LEFT JOIN headrace.chunk p ON p.id = c.origin
 WHERE s.job = %(job)b AND (%(position)b::bigint IS NULL OR s.position = %(position)b) ORDER BY s.id

-- claims
-- Claims of a job that are live or remembered.
SELECT k.fence, k.chunk, k.lo, k.hi, k.done, k.dead, k.cancelled, k.moved, k.low::text, k.high::text, k.live
  FROM headrace.claim k JOIN headrace.chunk_state s ON s.id = k.chunk WHERE s.job = %(job)b ORDER BY k.fence

-- item_bodies
-- Keys and payloads of the payload chunks that hold the first items after a seq.
SELECT c.id, c.seqs, c.ends, c.keys, c.payload FROM headrace.chunk c WHERE c.id = ANY (%(chunks)b::bigint[])

-- items_dead
-- Which items of one stage died, by generation.
SELECT generation, seq FROM headrace.dead WHERE job = %(job)b AND position = %(position)b

-- dead_list
-- Dead letters for people, newest first.
SELECT job, generation, stage, seq, key, reason, rule, error, fingerprint, attempts,
       extract(epoch FROM died_at)::double precision, redriven_in, payload, traceback
  FROM headrace.dead
 WHERE redriven_in IS NULL
   AND (%(tenant)b::text IS NULL OR tenant = %(tenant)b) AND (%(job)b::text IS NULL OR job = %(job)b)
   AND (%(flow)b::text IS NULL OR flow = %(flow)b) AND (%(stage)b::text IS NULL OR stage = %(stage)b)
   AND (%(reason)b::text IS NULL OR reason = %(reason)b) AND (%(rule)b::text IS NULL OR rule = %(rule)b)
   AND (%(fingerprint)b::text IS NULL OR fingerprint = %(fingerprint)b)
   AND (%(seq)b::bigint IS NULL OR seq = %(seq)b)
 ORDER BY died_at DESC, job DESC, generation DESC, position DESC, seq DESC LIMIT %(limit)b

-- finishes
-- The finish lines of a job.
SELECT generation, state, event_id, extract(epoch FROM crossed_at)::double precision FROM headrace.finish
 WHERE job = %(job)b ORDER BY generation

-- workers
-- Live workers with what they hold.
SELECT w.id, w.host, w.pid, (SELECT count(*) FROM headrace.claim k WHERE k.live AND k.worker = w.id),
       greatest(0, extract(epoch FROM clock_timestamp() - w.seen_at))::double precision
  FROM headrace.worker w WHERE w.seen_at >= clock_timestamp() - headrace.seconds(w.hold_s) ORDER BY w.id

-- audit_job
-- Where a job stands.
SELECT generation, state, pruned, purged, graph FROM headrace.job WHERE id = %(job)b

-- audit_stages
-- All tallies of a job, as stored.
SELECT generation, position, name, feeders_open, total, done, dead, cancelled, closed_at IS NOT NULL, redriven
  FROM headrace.stage WHERE job = %(job)b ORDER BY generation, position

-- audit_dead
-- All dead letters of a job, by place.
SELECT generation, position, seq, redriven_in FROM headrace.dead WHERE job = %(job)b ORDER BY generation, position, seq

-- audit_events
-- Completed events of a job.
SELECT generation FROM headrace.event WHERE job = %(job)b AND topic = 'job.completed' ORDER BY id

-- snapshot
-- Several reads of one instant, on a connection that changes nothing.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY
