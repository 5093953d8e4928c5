-- submit
-- Open a job.
SELECT * FROM headrace.submit(%b::text::jsonb, %b::bytea[], %b::bytea[])

-- send
-- Write parcels ahead of their settlement or submit.
SELECT headrace.send(%b, %b::bigint, %b::text::jsonb, %b::bytea[], %b::bytea[])

-- claim
-- Grant slices.
SELECT * FROM headrace.claim(%b, %b::text::jsonb, %b::text[], %b::bigint[]::integer[], %b::bigint[]::integer[],
    %b::text::jsonb)

-- settle
-- Apply outcomes.
SELECT * FROM headrace.settle(%b::bigint[], %b::bigint[]::integer[], %b::text[], %b::boolean[], %b::text[]::jsonb[],
                              %b::bytea[], %b::bytea[])

-- prepare_stops
-- The locks of stops that a call was found to need.
SELECT headrace.prepare_stops(%b::text[], %b::bigint[])

-- renew
-- Hold on.
SELECT * FROM headrace.renew(%b, %b::text::jsonb, %b::bigint[])

-- worker_goodbye
-- A worker that has ended is counted on no more.
DELETE FROM headrace.worker WHERE id = %b RETURNING id

-- sweep
-- End expired claims.
SELECT * FROM headrace.sweep(%b::bigint::integer, %b::text::jsonb)

-- expire_externals
-- End external stages past their deadline.
SELECT * FROM headrace.expire_externals(%b::text::jsonb)

-- forget
-- Let go of what is no longer asked for.
SELECT headrace.forget()

-- raise_fence
-- Fences go on above the clock.
SELECT headrace.raise_fence()

-- graphs_of
-- The graphs that jobs were submitted with.
SELECT digest, body FROM headrace.graph WHERE digest = ANY (%b::text[])

-- cancel
-- End what waits and close the gates.
SELECT headrace.cancel(%b)

-- set_paused
-- Close or open the gates.
SELECT headrace.set_paused(%b, %b::boolean)

-- cancel_item
-- End one item.
SELECT * FROM headrace.cancel_item(%b, %b::bigint::integer, %b::bigint)

-- close_external
-- The event an external stage waits for.
SELECT * FROM headrace.close_external(%b, %b::bigint::integer, %b)

-- retain
-- A bounded piece of retention.
SELECT headrace.retain()

-- lock_job
-- Operators of one job queue here; the job as it stands then.
SELECT (j).state, (j).graph, (j).generation FROM headrace.alone_on(%b) j

-- job_graph
-- Which graph a job was submitted with.
SELECT graph FROM headrace.job WHERE id = %b

-- redrive
-- Open the next generation.
SELECT headrace.redrive(%b, %b::text::jsonb, %b::text::jsonb, %b::bytea[], %b::bytea[])

-- dead_match
-- Dead letters by filter, in an order that keeps their items together; locked, so that no letter is taken up by one and
-- forgotten by another.
SELECT job, generation, position, seq, key, payload, depth, revokes FROM headrace.dead
 WHERE redriven_in IS NULL
   AND (%(tenant)b::text IS NULL OR tenant = %(tenant)b) AND (%(job)b::text IS NULL OR job = %(job)b)
   AND (%(flow)b::text IS NULL OR flow = %(flow)b) AND (%(stage)b::text IS NULL OR stage = %(stage)b)
   AND (%(reason)b::text IS NULL OR reason = %(reason)b) AND (%(rule)b::text IS NULL OR rule = %(rule)b)
   AND (%(fingerprint)b::text IS NULL OR fingerprint = %(fingerprint)b)
   AND (%(seq)b::bigint IS NULL OR seq = %(seq)b)
 ORDER BY job, position, seq LIMIT %(limit)b FOR UPDATE

-- dead_delete
-- Forget dead letters; their jobs remember that some are gone.
WITH gone AS (
    DELETE FROM headrace.dead d USING unnest(%b::text[], %b::bigint[], %b::bigint[], %b::bigint[]) g(job, generation,
        position, seq)
     WHERE d.job = g.job AND d.generation = g.generation AND d.position = g.position AND d.seq = g.seq
         AND d.redriven_in IS NULL
    RETURNING d.job
), noted AS (
    UPDATE headrace.job j SET purged = true WHERE j.id IN (SELECT job FROM gone) AND NOT j.purged)
SELECT count(*) FROM gone

-- lock_claims
-- The locks of a settlement, in their order, before its statements take theirs. A holder that froze between them loses
-- the transaction: sweeps pass over what is locked, so its items would never be taken over.
SELECT set_config('idle_in_transaction_session_timeout', '2s', true), headrace.lock_claims(%b::bigint[])

-- refusal
-- Whether a settlement is to be applied, for claims that are locked.
SELECT headrace.refusal(c, %b::bigint::integer) FROM headrace.claim c WHERE c.fence = %b

-- submit_in
-- Open a job inside the caller's transaction, whatever driver the caller has: no binary notation.
SELECT version, job_id, created, first_digest
  FROM headrace.submit_in(%s::integer, %s::boolean, %s::text::jsonb, %s::bytea[], %s::bytea[])
