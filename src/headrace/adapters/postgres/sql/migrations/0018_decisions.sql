-- What belongs to no dialect is decided by the caller and arrives as values: the marks of a dead letter, how often the
-- lowest priority comes first, how long a slice of suspects is, in how many chunks a share is counted.

-- Dead letters for items that end dead; those that ended before are left out. A letter remembers the lost claims that
-- had the item: whoever redrives it must tell the sinks.
CREATE OR REPLACE FUNCTION headrace.end_dead(INOUT claim headrace.claim, state headrace.chunk_state, losses jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    dying integer[];
    moment timestamptz := clock_timestamp();
BEGIN
    SELECT array_agg(DISTINCT (l ->> 'index')::integer) INTO dying FROM jsonb_array_elements(losses) l
     WHERE (l ->> 'index')::integer < claim.hi - claim.lo
       AND get_bit(headrace.unsettled(claim), (l ->> 'index')::integer) = 1;
    IF dying IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO headrace.dead (job, generation, position, seq, tenant, flow, stage, key, reason, rule, error,
        fingerprint, attempts, died_at, depth, revokes, payload, traceback)
    SELECT state.job, state.generation, state.position, i.seq, state.tenant, j.flow, s.name, i.key, l ->> 'reason',
           l ->> 'rule', l ->> 'error', l ->> 'fingerprint', (l ->> 'attempts')::integer, moment,
           state.depth, state.revokes, i.payload, l ->> 'traceback'
      FROM (SELECT DISTINCT ON ((e ->> 'index')::integer) e AS l FROM jsonb_array_elements(losses) e
             WHERE (e ->> 'index')::integer = ANY (dying)) chosen
      JOIN headrace.items_of(claim.chunk, ARRAY(SELECT at + claim.lo FROM unnest(dying) at)) i
        ON i.item = (l ->> 'index')::integer + claim.lo
      JOIN headrace.job j ON j.id = state.job
      JOIN headrace.stage s ON s.job = state.job AND s.generation = state.generation AND s.position = state.position;
    claim := headrace.mark(claim, 'dead', headrace.plane(dying, claim.hi - claim.lo));
END $$;

-- Settle an expired claim: its unsettled items come back as suspects. If the claim ran alone and had begun, its first
-- unsettled item was the only one started, and that one is charged: it dies of `loss` at crashes_max. The answer is
-- whether the chunk ended.
DROP FUNCTION headrace.lose(headrace.claim, integer);
CREATE FUNCTION headrace.lose(claim headrace.claim, crashes_max integer, loss jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    state headrace.chunk_state;
    place headrace.chunk_state;
    kept integer[];
    parted record;
    width integer := claim.hi - claim.lo;
BEGIN
    SELECT * INTO state FROM headrace.chunk_state s WHERE s.id = claim.chunk;
    claim.low := coalesce(claim.low, headrace.zeros(width));
    claim.high := coalesce(claim.high, headrace.zeros(width));
    parted := headrace.end_cancelled(claim, state, headrace.indexes(headrace.unsettled(claim)));
    claim := parted.claim;
    kept := parted.kept;
    place := state;
    place.due_at := NULL;
    place.suspect := true;
    place.revokes := coalesce(state.revokes, '{}') || claim.fence;
    IF claim.alone AND claim.step > 0 AND cardinality(kept) > 0 THEN
        IF state.crashes + 1 >= crashes_max THEN
            claim := headrace.end_dead(claim, place, jsonb_build_array(loss || jsonb_build_object(
                'index', kept[1], 'attempts', state.attempt)));
        ELSE
            place.crashes := state.crashes + 1;
            claim := headrace.move(claim, place, kept[1:1]);
            place.crashes := state.crashes;
        END IF;
        kept := kept[2:];
    END IF;
    IF cardinality(kept) > 0 THEN
        claim := headrace.move(claim, place, kept);
    END IF;
    RETURN headrace.end_claim(claim, claim.hi);
END $$;

-- End expired claims. What a settlement or another sweep is just working on is passed over.
DROP FUNCTION headrace.sweep(integer);
CREATE FUNCTION headrace.sweep(crashes_max integer, loss jsonb, OUT lost integer, OUT wait_s double precision, OUT rang boolean,
                               OUT stopping text[]) LANGUAGE plpgsql AS $$
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
    stopping := headrace.fold(ended);
    SELECT greatest(0, extract(epoch FROM c.until - clock_timestamp())) INTO wait_s FROM headrace.claim c WHERE c.live
     ORDER BY c.until LIMIT 1;
    rang := headrace.rang();
END $$;
ALTER FUNCTION headrace.sweep SET enable_seqscan = off;
ALTER FUNCTION headrace.sweep SET enable_bitmapscan = off;
ALTER FUNCTION headrace.sweep SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION headrace.sweep SET jit = off;

-- External stages whose deadline has passed: their one item dies, and tolerance decides. In a transaction of its own,
-- because it begins with chunk states.
DROP FUNCTION headrace.expire_externals();
CREATE FUNCTION headrace.expire_externals(loss jsonb, OUT expired integer, OUT rang boolean, OUT stopping text[])
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
    stopping := headrace.fold(ended);
    rang := headrace.rang();
END $$;
ALTER FUNCTION headrace.expire_externals SET enable_seqscan = off;
ALTER FUNCTION headrace.expire_externals SET enable_bitmapscan = off;
ALTER FUNCTION headrace.expire_externals SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION headrace.expire_externals SET jit = off;

DROP FUNCTION headrace.fingerprint(text, text, text);

-- How many items one call may take from a job's stage while several workers are alive: its waiting items over twice
-- their number, rounded up. Waiting is counted in the first chunks only, so many for each part.
DROP FUNCTION headrace.fair_share(headrace.chunk_state, bigint);
CREATE FUNCTION headrace.fair_share(chosen headrace.chunk_state, workers bigint, chunks integer) RETURNS integer LANGUAGE sql STABLE
RETURN greatest(1, (
    SELECT ceil(sum(w.waiting) / (2.0 * workers)) FROM (
        SELECT s.count - s.next AS waiting FROM headrace.chunk_state s
         WHERE s.ready AND s.queue = chosen.queue AND s.priority = chosen.priority AND s.tenant = chosen.tenant
           AND s.job = chosen.job
         ORDER BY s.id LIMIT 2 * workers * chunks) w))::integer;

-- Grant slices for the wants, in their order. The last row has no fence and says when something becomes due. `turns`
-- has an entry per want: how many claims were served before, the last tenant, and the last job of tenants that may come
-- up.
CREATE OR REPLACE FUNCTION headrace.claim(worker_id text, holder jsonb, queues text[], rooms integer[], slices integer[],
    turns jsonb)
RETURNS SETOF headrace.granted
LANGUAGE plpgsql AS $$
DECLARE
    hold double precision := (holder ->> 'hold_s')::double precision;
    workers bigint;
    due_s double precision;
    chosen headrace.chunk_state;
    turn jsonb;
    served integer;
    room integer;
    size integer;
    share integer;
    shares jsonb;
    upto integer;
    given bigint;
    last headrace.granted;
BEGIN
    PERFORM headrace.seen(worker_id, holder ->> 'host', (holder ->> 'pid')::integer, hold, hold / 6);
    IF holder ? 'unanswered' THEN
        -- The call whose answer was lost may still be under way: it holds this lock until it has committed.
        PERFORM pg_advisory_xact_lock(hashtextextended(worker_id, 5216376));
        RETURN QUERY SELECT * FROM headrace.grant_again(worker_id, holder -> 'unanswered');
        IF FOUND THEN
            RETURN NEXT last;
            RETURN;
        END IF;
    ELSE
        PERFORM pg_advisory_xact_lock_shared(hashtextextended(worker_id, 5216376));
    END IF;
    due_s := headrace.promote();
    -- Whoever raises the fences above the clock waits for grants in flight, and they for it.
    PERFORM pg_advisory_xact_lock_shared(5216374);
    SELECT count(*) INTO workers FROM headrace.worker w
        WHERE w.seen_at >= clock_timestamp() - headrace.seconds(w.hold_s);
    FOR n IN 1 .. cardinality(queues) LOOP
        turn := turns -> (n - 1);
        served := (turn ->> 'served')::integer;
        room := rooms[n];
        shares := '{}';
        WHILE room > 0 LOOP
            chosen := headrace.pick(queues[n], (served + 1) % (holder ->> 'lowest_every')::integer = 0, turn, given IS NULL);
            EXIT WHEN chosen.id IS NULL;
            size := least(room, slices[n], chosen.count - chosen.next, CASE WHEN chosen.suspect
                THEN (holder ->> 'alone_slice_max')::integer END);
            IF workers > 1 THEN
                share := coalesce((shares ->> chosen.job)::integer, headrace.fair_share(chosen, workers,
                    (holder ->> 'share_chunks')::integer));
                EXIT WHEN share = 0;
                size := least(size, share);
                shares := jsonb_set(shares, ARRAY[chosen.job], to_jsonb(share - size));
            END IF;
            upto := chosen.next + size;
            UPDATE headrace.chunk_state s SET next = upto WHERE s.id = chosen.id;
            -- The fence is minted here, after the row lock: a later grant of the same item has a higher one.
            given := nextval('headrace.fence');
            INSERT INTO headrace.claim (fence, chunk, until, hold_s, lo, hi, alone, worker, request)
            VALUES (given, chosen.id, clock_timestamp() + headrace.seconds(hold), hold, chosen.next, upto,
                chosen.suspect, worker_id, holder ->> 'request');
            RETURN QUERY SELECT * FROM headrace.slice(chosen, upto, given);
            room := room - size;
            served := served + 1;
            turn := jsonb_set(jsonb_set(turn, '{tenant}', to_jsonb(chosen.tenant)), ARRAY['jobs', chosen.tenant],
                to_jsonb(chosen.job));
        END LOOP;
    END LOOP;
    last.wait_s := due_s;
    RETURN NEXT last;
END $$;
ALTER FUNCTION headrace.claim SET enable_seqscan = off;
ALTER FUNCTION headrace.claim SET enable_bitmapscan = off;
ALTER FUNCTION headrace.claim SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION headrace.claim SET jit = off;
