-- promote_due
-- Chunks whose time has come can be claimed from now on.
UPDATE headrace_chunk_state SET ready = 1 WHERE ready = 2 AND due_at <= :now

-- next_due
-- The moment at which the next delayed chunk becomes ready.
SELECT due_at FROM headrace_chunk_state WHERE ready = 2 ORDER BY due_at LIMIT 1

-- priority_highest
-- The most urgent priority with something ready in this queue.
SELECT priority FROM headrace_chunk_state WHERE ready = 1 AND queue = :queue ORDER BY priority DESC LIMIT 1

-- priority_lowest
-- The least urgent one, which gets a share of the claims.
SELECT priority FROM headrace_chunk_state WHERE ready = 1 AND queue = :queue ORDER BY priority LIMIT 1

-- tenant_next
-- Whose turn it is after a tenant: one index probe, however many jobs wait.
SELECT tenant FROM headrace_chunk_state
 WHERE ready = 1 AND queue = :queue AND priority = :priority AND tenant > :tenant ORDER BY tenant LIMIT 1

-- chunk_next
-- The oldest ready chunk of the tenant's next job after the one served last.
SELECT id, job FROM headrace_chunk_state
 WHERE ready = 1 AND queue = :queue AND priority = :priority AND tenant = :tenant AND job > :job
 ORDER BY job, id LIMIT 1

-- chunk_waiting
-- Waiting items in the first ready chunks of one job's stage: exact when few are left.
SELECT coalesce(sum(waiting), 0) FROM (
    SELECT count - next AS waiting FROM headrace_chunk_state
     WHERE ready = 1 AND queue = :queue AND priority = :priority AND tenant = :tenant AND job = :job
     ORDER BY id LIMIT :chunks)

-- workers_live
-- Workers that renewed within their hold time.
SELECT count(*) FROM headrace_worker WHERE boot = :boot AND seen >= :now - hold_s

-- worker_seen
-- A worker says that it is alive; an idle one does not write more often than it must.
INSERT INTO headrace_worker (id, host, pid, boot, seen, hold_s) VALUES (:id, :host, :pid, :boot, :now, :hold_s)
    ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, hold_s = excluded.hold_s, boot = excluded.boot
 WHERE excluded.boot <> boot OR excluded.hold_s <> hold_s OR excluded.seen - seen > hold_s / 6

-- worker_goodbye
-- A worker that has ended is counted on no more.
DELETE FROM headrace_worker WHERE id = :id

-- worker_gone
-- Workers not seen for a long time are forgotten.
DELETE FROM headrace_worker WHERE boot <> :boot OR seen < :before

-- fence_mint
-- Above every fence given before, also after a restore from an old backup.
UPDATE headrace_meta SET value = max(value + 1, :now_us) WHERE key = 'fence' RETURNING value

-- chunk_grant
-- Move the mark past the slice; the last slice takes the chunk out of the ready ones.
UPDATE headrace_chunk_state SET next = :hi, ready = (:hi < count) WHERE id = :id AND next = :lo AND ready = 1

-- claim_insert
-- One slice, held under its fence.
INSERT INTO headrace_claim (fence, chunk, worker, lo, hi, alone, hold_s, boot, until)
VALUES (:fence, :chunk, :worker, :lo, :hi, :alone, :hold_s, :boot, :until)

-- chunk_head
-- What a claim says about its chunk and job.
SELECT s.job, s.generation, s.position, s.tenant, s.attempt, s.suspect, s.depth, s.count, s.next, s.revokes, j.flow,
       j.graph
  FROM headrace_chunk_state s JOIN headrace_job j ON j.id = s.job WHERE s.id = :id

-- chunk_items
-- Where the items of a chunk are, without their payload.
SELECT c.id, c.picks, coalesce(o.id, c.id), coalesce(o.ends, c.ends), coalesce(o.keys, c.keys), coalesce(o.seqs, c.seqs)
  FROM headrace_chunk c LEFT JOIN headrace_chunk o ON o.id = c.origin WHERE c.id = :id

-- chunk_payload
-- A run of payload bytes.
SELECT substr(payload, :start + 1, :length) FROM headrace_chunk WHERE id = :id

-- cursors_of
-- Cursors that earlier holders of these items committed.
SELECT seq, cursor FROM headrace_cursor
 WHERE job = :job AND generation = :generation AND position = :position AND seq BETWEEN :first AND :last

-- graph_body
-- The graph a job was submitted with.
SELECT body FROM headrace_graph WHERE digest = :digest

-- claim_renew
-- Hold on. An expired claim is not revived, and one behind a cancelled gate runs out.
UPDATE headrace_claim AS claim SET until = :until, hold_s = :hold_s
 WHERE fence = :fence AND live = 1 AND boot = :boot AND until >= :now
   AND (SELECT gate FROM headrace_chunk_state WHERE id = claim.chunk) <> 2
RETURNING fence

-- claim_alive
-- Whether a claim is still held by the store's clock.
SELECT fence FROM headrace_claim WHERE fence = :fence AND live = 1 AND boot = :boot AND until >= :now
