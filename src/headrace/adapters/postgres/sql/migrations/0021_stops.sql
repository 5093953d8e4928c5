-- A job in which too much died stops in the transaction that finds it.
--
-- A stop closes the gates of all open chunks, so it needs their locks, and locks on chunks come before those on stages. A
-- transaction that finds at a stage that its job must stop, and has not taken these locks, is refused whole with HR001
-- and the job as its detail; the caller repeats it after `prepare_stops`. Then nobody else works on the job, and the
-- walk over its stages may go back.

-- Take the locks of everything that stops may touch, in their order: operators, claims by fence, chunk states by id.
CREATE FUNCTION headrace.prepare_stops(jobs text[], fences bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    named text;
BEGIN
    PERFORM set_config('headrace.stops', to_jsonb(jobs)::text, true);
    PERFORM pg_advisory_xact_lock(hashtextextended(j, 5216374)) FROM (SELECT j FROM unnest(jobs) j ORDER BY j) ordered;
    PERFORM FROM headrace.claim c WHERE c.fence = ANY (fences) ORDER BY c.fence FOR UPDATE;
    PERFORM FROM headrace.chunk_state s
      WHERE s.id = ANY (ARRAY(SELECT c.chunk FROM headrace.claim c WHERE c.fence = ANY (fences) AND c.live
                              UNION SELECT o.id FROM headrace.chunk_state o WHERE o.job = ANY (jobs) AND o.open))
      ORDER BY s.id FOR UPDATE;
    FOREACH named IN ARRAY jobs LOOP
        PERFORM headrace.lock_open(named);
    END LOOP;
END $$;

-- Whether this transaction has taken the locks that it needs to stop a job.
CREATE FUNCTION headrace.may_stop(job_id text) RETURNS boolean LANGUAGE sql STABLE
RETURN coalesce(nullif(current_setting('headrace.stops', true), ''), '[]')::jsonb ? job_id;

-- End what waits, and put everything that is held behind a closed gate; the chunks that ended with it. `cause`: 1 a user
-- wants it, 2 too much died. A stop leaves barriers alone, because they run in failed jobs; a user may end those as well.
-- The caller holds the locks of all open chunks.
CREATE FUNCTION headrace.close_gates(job_id text, cause smallint) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    ended bigint[];
BEGIN
    UPDATE headrace.job j SET cancelled = cause WHERE j.id = job_id;
    WITH gone AS (
        UPDATE headrace.chunk_state s
           SET gate = 2, next = s.count, cancelled = s.cancelled + (s.count - s.next), due_at = NULL,
               high = overlay(coalesce(s.high,
                   headrace.zeros(s.count)) PLACING ~headrace.zeros(s.count - s.next) FROM s.next + 1)
         WHERE s.job = job_id AND s.open AND s.gate <> 2 AND (cause = 1 OR s.kind <> 1) RETURNING s.id, s.open)
    SELECT coalesce(array_agg(g.id) FILTER (WHERE NOT g.open), '{}') INTO ended FROM gone g;
    RETURN ended;
END $$;

-- A user ends a job. NULL: no such job. False: it had ended.
DROP FUNCTION headrace.cancel(text, smallint);
CREATE FUNCTION headrace.cancel(job_id text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    owner headrace.job := headrace.alone_on(job_id);
BEGIN
    IF owner.id IS NULL THEN
        RETURN NULL;
    END IF;
    IF owner.state <> 'open' OR owner.cancelled = 1 THEN
        RETURN owner.state = 'open';
    END IF;
    PERFORM headrace.lock_open(job_id);
    -- What was in flight may have ended the job meanwhile.
    IF NOT EXISTS (SELECT FROM headrace.job j WHERE j.id = job_id AND j.state = 'open') THEN
        RETURN false;
    END IF;
    PERFORM headrace.fold(headrace.close_gates(job_id, 1::smallint));
    RETURN true;
END $$;
ALTER FUNCTION headrace.cancel SET enable_seqscan = off;
ALTER FUNCTION headrace.cancel SET enable_bitmapscan = off;
ALTER FUNCTION headrace.cancel SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION headrace.cancel SET jit = off;

-- Whether a stage that has no more feeders gets its one item in this generation. In a redriven one that is so if
-- something before it moved: else the redrive itself let its letter in. Nobody is waited for in a job that has stopped.
CREATE OR REPLACE FUNCTION headrace.opens(stage headrace.stage, owner headrace.job) RETURNS boolean LANGUAGE sql STABLE
RETURN stage.kind <> 0
   AND (owner.cancelled = 0 OR stage.always OR (owner.cancelled = 2 AND stage.kind = 1))
   AND (stage.generation = 1 OR (
        (stage.every_generation OR EXISTS (
            SELECT FROM headrace.dead d
             WHERE d.job = stage.job AND d.position = stage.position AND d.redriven_in = stage.generation))
        AND EXISTS (
            SELECT FROM headrace.stage u
             WHERE u.job = stage.job AND u.generation = stage.generation AND u.position = ANY (stage.upstream)
                 AND u.total > 0)));

-- Fold one job's ended chunks and walk forward: each stage row is locked once, in order of position. Closing a stage
-- takes one feeder from every stage behind it; that is noted and applied when the walk gets there. A stop ends chunks of
-- any stage, so the walk begins anew with them.
DROP FUNCTION headrace.advance(text, integer, bigint[], integer[]);
CREATE FUNCTION headrace.advance(job_id text, run integer, ended bigint[], visit integer[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    here integer;
    target integer;
    fewer integer[] := '{}';
    found_ended bigint;
    counted record;
    stage headrace.stage;
    owner headrace.job;
    closed integer := 0;
    less integer;
BEGIN
    LOOP
        SELECT min(v) INTO here FROM unnest(visit) v;
        EXIT WHEN here IS NULL;
        visit := array_remove(visit, here);
        less := coalesce(fewer[here], 0);
        fewer[here] := 0;
        SELECT coalesce(sum(count) FILTER (WHERE fresh), 0) AS total, coalesce(sum(s.done), 0) AS done,
               coalesce(sum(s.dead), 0) AS dead, coalesce(sum(s.cancelled), 0) AS cancelled
          INTO counted FROM headrace.chunk_state s WHERE s.id = ANY (ended) AND s.job = job_id AND s.position = here;
        UPDATE headrace.stage s
           SET total = s.total + counted.total, done = s.done + counted.done, dead = s.dead + counted.dead,
               cancelled = s.cancelled + counted.cancelled, feeders_open = s.feeders_open - less
         WHERE s.job = job_id AND s.generation = run AND s.position = here
        RETURNING * INTO stage;
        IF counted.dead > 0 AND headrace.stops(stage) THEN
            IF NOT headrace.may_stop(job_id) THEN
                RAISE EXCEPTION 'too much died in job %', job_id USING ERRCODE = 'HR001', DETAIL = job_id;
            END IF;
            -- What lies before here is folded; the stage itself is looked at again, with what the stop ended in it.
            ended := ARRAY(SELECT s.id FROM headrace.chunk_state s
                            WHERE s.id = ANY (ended) AND s.job = job_id AND s.position > here)
                  || headrace.close_gates(job_id, 2::smallint);
            visit := ARRAY(SELECT here UNION SELECT unnest(visit) UNION
                           SELECT s.position FROM headrace.chunk_state s WHERE s.id = ANY (ended) AND s.job = job_id);
            CONTINUE;
        END IF;
        IF less > 0 AND stage.feeders_open = 0 AND stage.kind <> 0 THEN
            SELECT * INTO owner FROM headrace.job WHERE id = job_id;
            IF headrace.opens(stage, owner) THEN
                found_ended := headrace.open_item(stage, owner);
                IF found_ended IS NOT NULL THEN
                    UPDATE headrace.stage s SET total = s.total + 1, done = s.done + 1
                     WHERE s.job = job_id AND s.generation = run AND s.position = here RETURNING * INTO stage;
                END IF;
            ELSIF run > 1 AND (owner.cancelled = 1 OR (owner.cancelled = 2 AND stage.kind = 2)) THEN
                -- A stage that did not open took up nothing.
                UPDATE headrace.dead d SET redriven_in = NULL
                 WHERE d.job = job_id AND d.position = here AND d.redriven_in = run;
                UPDATE headrace.stage s SET redriven = 0
                 WHERE s.job = job_id AND s.generation = run AND s.position = here;
            END IF;
        END IF;
        IF headrace.can_close(stage) THEN
            UPDATE headrace.stage s SET closed_at = clock_timestamp()
             WHERE s.job = job_id AND s.generation = run AND s.position = here;
            closed := closed + 1;
            FOREACH target IN ARRAY stage.arrows LOOP
                fewer[target] := coalesce(fewer[target], 0) + 1;
                visit := array_append(array_remove(visit, target), target);
            END LOOP;
        END IF;
    END LOOP;
    IF closed > 0 THEN
        UPDATE headrace.job j SET stages_open = j.stages_open - closed WHERE j.id = job_id RETURNING * INTO owner;
        IF owner.stages_open = 0 THEN
            PERFORM headrace.finish(owner);
        END IF;
    END IF;
END $$;

-- Fold ended chunks of any jobs.
DROP FUNCTION headrace.fold(bigint[]);
CREATE FUNCTION headrace.fold(ended bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    touched record;
BEGIN
    IF cardinality(ended) = 0 THEN
        RETURN;
    END IF;
    FOR touched IN SELECT s.job, s.generation, array_agg(DISTINCT s.position) AS positions
                     FROM headrace.chunk_state s WHERE s.id = ANY (ended) GROUP BY 1, 2 ORDER BY 1, 2 LOOP
        PERFORM headrace.advance(touched.job, touched.generation, ended, touched.positions);
    END LOOP;
END $$;

-- Settle many claims in one transaction. `dones` are bit strings, first item leftmost; `finals` whether the claim ends;
-- `details` everything else, absent in the ordinary case. One reason per settlement, empty if it was applied (now or
-- before).
DROP FUNCTION headrace.settle(bigint[], integer[], text[], boolean[], jsonb[], bytea[], bytea[]);
CREATE FUNCTION headrace.settle(fences bigint[], steps integer[], dones text[], finals boolean[], details jsonb[],
                                payloads bytea[], ends bytea[],
                                OUT reasons text[], OUT rang boolean) LANGUAGE plpgsql AS $$
DECLARE
    held headrace.claim;
    state headrace.chunk_state;
    ended bigint[] := '{}';
    applied record;
    granted_hi integer;
    width integer;
    refused text;
BEGIN
    reasons := '{}';
    PERFORM headrace.hush();
    PERFORM headrace.lock_claims(fences);
    FOR n IN 1 .. cardinality(fences) LOOP
        SELECT * INTO held FROM headrace.claim c WHERE c.fence = fences[n];
        refused := headrace.refusal(held, steps[n]);
        IF refused IS NOT NULL THEN
            reasons := reasons || refused;
            CONTINUE;
        END IF;
        SELECT * INTO state FROM headrace.chunk_state s WHERE s.id = held.chunk;
        IF details[n] ?| '{sends,flips}' THEN
            refused := headrace.wrong_target(state, held.fence, details[n]);
            IF refused IS NOT NULL THEN
                reasons := reasons || refused;
                CONTINUE;
            END IF;
        END IF;
        granted_hi := held.hi;
        width := held.hi - held.lo;
        held.step := steps[n];
        held.low := coalesce(held.low, headrace.zeros(width));
        held.high := coalesce(held.high, headrace.zeros(width));
        held := headrace.mark(held, 'done', rpad(dones[n], width, '0')::bit varying & headrace.unsettled(held));
        IF details[n] IS NOT NULL THEN
            applied := headrace.apply_details(held, state, details[n], payloads, ends);
            held := applied.claim;
            ended := ended || applied.ended;
        END IF;
        IF finals[n] THEN
            IF held.done + held.dead + held.cancelled + held.moved < width THEN
                held := headrace.give_back(held, state, 0);
            END IF;
            IF headrace.end_claim(held, granted_hi) THEN
                ended := ended || held.chunk;
            END IF;
        ELSE
            IF details[n] ? 'back' THEN
                held := headrace.give_back(held, state, (details[n] ->> 'back')::integer);
                UPDATE headrace.chunk_state s SET next = s.next - (granted_hi - held.hi)
                 WHERE s.id = held.chunk AND held.hi < granted_hi;
            END IF;
            UPDATE headrace.claim c SET hi = held.hi, step = held.step, done = held.done, dead = held.dead,
                cancelled = held.cancelled,
                   moved = held.moved, low = held.low, high = held.high WHERE c.fence = held.fence;
        END IF;
        reasons := reasons || ''::text;
    END LOOP;
    PERFORM headrace.fold(ended);
    rang := headrace.rang();
END $$;
ALTER FUNCTION headrace.settle SET enable_seqscan = off;
ALTER FUNCTION headrace.settle SET enable_bitmapscan = off;
ALTER FUNCTION headrace.settle SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION headrace.settle SET jit = off;

DROP FUNCTION headrace.sweep(integer, jsonb);
CREATE FUNCTION headrace.sweep(crashes_max integer, loss jsonb, OUT lost integer, OUT wait_s double precision, OUT rang boolean) LANGUAGE plpgsql AS $$
DECLARE
    fences bigint[];
    held headrace.claim;
    ended bigint[] := '{}';
BEGIN
    PERFORM headrace.hush();
    SELECT coalesce(array_agg(e.fence), '{}') INTO fences FROM (
        SELECT c.fence FROM headrace.claim c WHERE c.live AND c.until < clock_timestamp()
         ORDER BY c.until LIMIT 100 FOR UPDATE SKIP LOCKED) e;
    lost := cardinality(fences);
    IF lost > 0 THEN
        PERFORM FROM headrace.chunk_state s
          WHERE s.id = ANY (ARRAY(SELECT c.chunk FROM headrace.claim c WHERE c.fence = ANY (fences)))
              ORDER BY s.id FOR UPDATE;
        FOR held IN SELECT * FROM headrace.claim c WHERE c.fence = ANY (fences) ORDER BY c.fence LOOP
            IF headrace.lose(held, crashes_max, loss) THEN
                ended := ended || held.chunk;
            END IF;
        END LOOP;
    END IF;
    PERFORM headrace.fold(ended);
    SELECT greatest(0, extract(epoch FROM c.until - clock_timestamp())) INTO wait_s FROM headrace.claim c WHERE c.live
     ORDER BY c.until LIMIT 1;
    rang := headrace.rang();
END $$;
ALTER FUNCTION headrace.sweep SET enable_seqscan = off;
ALTER FUNCTION headrace.sweep SET enable_bitmapscan = off;
ALTER FUNCTION headrace.sweep SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION headrace.sweep SET jit = off;

DROP FUNCTION headrace.expire_externals(jsonb);
CREATE FUNCTION headrace.expire_externals(loss jsonb, OUT expired integer, OUT rang boolean)
LANGUAGE plpgsql AS $$
DECLARE
    overdue headrace.chunk_state;
    ended bigint[] := '{}';
BEGIN
    PERFORM headrace.hush();
    FOR overdue IN SELECT * FROM headrace.chunk_state s WHERE s.due_at IS NOT NULL AND s.kind = 2
        AND s.due_at <= clock_timestamp()
                    ORDER BY s.due_at LIMIT 100 FOR UPDATE SKIP LOCKED LOOP
        INSERT INTO headrace.dead (job, generation, position, seq, tenant, flow, stage, reason, rule, error,
            fingerprint,
                                   attempts, depth, payload)
        SELECT overdue.job, overdue.generation, overdue.position, i.seq, overdue.tenant, j.flow, s.name,
               loss ->> 'reason', loss ->> 'rule', loss ->> 'error', loss ->> 'fingerprint',
               (loss ->> 'attempts')::integer, 0, i.payload
          FROM headrace.items_of(overdue.id, '{0}') i
          JOIN headrace.job j ON j.id = overdue.job
          JOIN headrace.stage s ON s.job = overdue.job AND s.generation = overdue.generation
              AND s.position = overdue.position;
        UPDATE headrace.chunk_state s SET next = 1, dead = 1, high = B'1', due_at = NULL WHERE s.id = overdue.id;
        ended := ended || overdue.id;
    END LOOP;
    expired := cardinality(ended);
    PERFORM headrace.fold(ended);
    rang := headrace.rang();
END $$;
ALTER FUNCTION headrace.expire_externals SET enable_seqscan = off;
ALTER FUNCTION headrace.expire_externals SET enable_bitmapscan = off;
ALTER FUNCTION headrace.expire_externals SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION headrace.expire_externals SET jit = off;

-- The event an external stage waits for. NULL: the stage opens at this very moment, ask again. Otherwise whether it was
-- the first.
DROP FUNCTION headrace.close_external(text, integer, text);
CREATE FUNCTION headrace.close_external(job_id text, stage_position integer, event text, OUT first boolean,
    OUT rang boolean) LANGUAGE plpgsql AS $$
DECLARE
    run integer;
    chunk_id bigint;
BEGIN
    PERFORM headrace.hush();
    rang := false;
    -- Events for one stage queue here, so that one of them is the first.
    PERFORM pg_advisory_xact_lock(hashtextextended(job_id || '/' || stage_position, 5216375));
    SELECT j.generation INTO run FROM headrace.job j WHERE j.id = job_id;
    IF EXISTS (SELECT FROM headrace.external_event e WHERE e.job = job_id AND e.position = stage_position)
       OR EXISTS (SELECT FROM headrace.stage s WHERE s.job = job_id AND s.generation = run
           AND s.position = stage_position
                     AND s.closed_at IS NOT NULL) THEN
        INSERT INTO headrace.external_event (job, position, event_id, first) VALUES (job_id, stage_position, event,
            false)
        ON CONFLICT DO NOTHING;
        first := false;
        RETURN;
    END IF;
    SELECT s.id INTO chunk_id FROM headrace.chunk_state s
     WHERE s.job = job_id AND s.open AND s.generation = run AND s.position = stage_position FOR UPDATE;
    IF chunk_id IS NULL THEN
        -- Not open yet, or over. Whoever opens it holds the stage's row and looks for events after that.
        PERFORM FROM headrace.stage s WHERE s.job = job_id AND s.generation = run
            AND s.position = stage_position FOR UPDATE;
        IF EXISTS (SELECT FROM headrace.chunk_state s
                    WHERE s.job = job_id AND s.open AND s.generation = run AND s.position = stage_position)
           OR EXISTS (SELECT FROM headrace.stage s WHERE s.job = job_id AND s.generation = run
                         AND s.position = stage_position AND s.closed_at IS NOT NULL) THEN
            RETURN;
        END IF;
    END IF;
    INSERT INTO headrace.external_event (job, position, event_id, first) VALUES (job_id, stage_position, event, true);
    first := true;
    IF chunk_id IS NOT NULL THEN
        UPDATE headrace.chunk_state s SET next = 1, done = 1, low = B'1', due_at = NULL WHERE s.id = chunk_id;
        PERFORM headrace.fold(ARRAY[chunk_id]);
        rang := headrace.rang();
    END IF;
END $$;
ALTER FUNCTION headrace.close_external SET enable_seqscan = off;
ALTER FUNCTION headrace.close_external SET enable_bitmapscan = off;
ALTER FUNCTION headrace.close_external SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION headrace.close_external SET jit = off;
