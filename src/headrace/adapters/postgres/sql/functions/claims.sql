-- Claims: whose turn it is, how large a slice is, and what its holder gets to see.
--
-- The caller brings its place in the rotation and takes it back from the rows it gets; no row here is written by all.

-- A fence for whatever is granted in this transaction. Call it after the row that is granted is locked.
CREATE FUNCTION headrace.mint() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    -- Whoever raises the fences above the clock waits for grants in flight, and they for it.
    PERFORM pg_advisory_xact_lock_shared(5216374);
    RETURN nextval('headrace.fence');
END $$;

-- Fences go on above the wall clock, so that a store restored from an old backup gives none that it gave before.
CREATE FUNCTION headrace.raise_fence() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    clock_us bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(5216374);
    clock_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    IF (SELECT last_value FROM headrace.fence) < clock_us THEN
        PERFORM setval('headrace.fence', clock_us);
    END IF;
END $$;

-- Chunks whose time has come can be claimed from now on; the next moment at which one will.
CREATE FUNCTION headrace.promote(OUT wait_s double precision) LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    IF EXISTS (SELECT FROM headrace.chunk_state s WHERE s.due_at <= moment AND s.due_at IS NOT NULL AND s.kind < 2) THEN
        UPDATE headrace.chunk_state SET due_at = NULL WHERE id IN (
            SELECT s.id FROM headrace.chunk_state s WHERE s.due_at <= moment AND s.due_at IS NOT NULL AND s.kind < 2
             ORDER BY s.due_at LIMIT 1000 FOR UPDATE SKIP LOCKED);
    END IF;
    SELECT greatest(0, extract(epoch FROM s.due_at - moment)) INTO wait_s FROM headrace.chunk_state s
     WHERE s.due_at IS NOT NULL AND s.kind < 2 ORDER BY s.due_at LIMIT 1;
END $$;

-- The next chunk of a queue, locked: the next tenant after the one served last, then that tenant's next job. What
-- others are claiming from or settling is passed over; a call that holds nothing yet may be patient and wait for it.
CREATE FUNCTION headrace.pick(wanted text, lowest boolean, turn jsonb, patient boolean) RETURNS headrace.chunk_state
LANGUAGE plpgsql AS $$
DECLARE
    urgency integer;
    whose text;
    last_tenant text := coalesce(turn ->> 'tenant', '');
    last_job text;
    chosen headrace.chunk_state;
BEGIN
    IF lowest THEN
        SELECT s.priority INTO urgency FROM headrace.chunk_state s WHERE s.ready AND s.queue = wanted
         ORDER BY s.priority LIMIT 1;
    ELSE
        SELECT s.priority INTO urgency FROM headrace.chunk_state s WHERE s.ready AND s.queue = wanted
         ORDER BY s.priority DESC LIMIT 1;
    END IF;
    IF urgency IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT s.tenant INTO whose FROM headrace.chunk_state s
     WHERE s.ready AND s.queue = wanted AND s.priority = urgency AND s.tenant > last_tenant ORDER BY s.tenant LIMIT 1;
    IF whose IS NULL THEN
        SELECT s.tenant INTO whose FROM headrace.chunk_state s
         WHERE s.ready AND s.queue = wanted AND s.priority = urgency ORDER BY s.tenant LIMIT 1;
    END IF;
    last_job := coalesce(turn -> 'jobs' ->> whose, '');
    SELECT * INTO chosen FROM headrace.chunk_state s
     WHERE s.ready AND s.queue = wanted AND s.priority = urgency AND s.tenant = whose AND s.job > last_job
     ORDER BY s.job, s.id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF chosen.id IS NULL AND last_job <> '' THEN
        SELECT * INTO chosen FROM headrace.chunk_state s
         WHERE s.ready AND s.queue = wanted AND s.priority = urgency AND s.tenant = whose
         ORDER BY s.job, s.id LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    IF chosen.id IS NULL THEN
        -- Everything of this tenant is being worked on by others at this moment: take whatever is left.
        SELECT * INTO chosen FROM headrace.chunk_state s WHERE s.ready AND s.queue = wanted
         ORDER BY s.priority DESC, s.tenant DESC, s.job DESC, s.id DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    IF chosen.id IS NULL AND patient THEN
        -- All there is in this queue is being worked on: items wait in it, so their turn is worth a commit's time.
        SELECT * INTO chosen FROM headrace.chunk_state s WHERE s.ready AND s.queue = wanted
         ORDER BY s.priority DESC, s.tenant DESC, s.job DESC, s.id DESC LIMIT 1 FOR UPDATE;
    END IF;
    RETURN chosen;
END $$;

-- How many items one call may take from a job's stage while several workers are alive: its waiting items over twice
-- their number, rounded up. Waiting is counted in the first chunks only, so many for each part.
CREATE FUNCTION headrace.fair_share(chosen headrace.chunk_state, workers bigint, chunks integer) RETURNS integer
LANGUAGE sql STABLE
RETURN greatest(1, (
    SELECT ceil(sum(w.waiting) / (2.0 * workers)) FROM (
        SELECT s.count - s.next AS waiting FROM headrace.chunk_state s
         WHERE s.ready AND s.queue = chosen.queue AND s.priority = chosen.priority AND s.tenant = chosen.tenant
           AND s.job = chosen.job
         ORDER BY s.id LIMIT 2 * workers * chunks) w))::integer;

-- What a barrier gets to see of the stages it comes after, in this generation and over all: they are closed, so these
-- counts are final.
CREATE FUNCTION headrace.tallies_before(chosen headrace.chunk_state) RETURNS jsonb LANGUAGE sql STABLE
RETURN (SELECT jsonb_object_agg(t.name, t.counts) FROM (
    SELECT s.name, jsonb_build_array(
               jsonb_agg(jsonb_build_array(s.total, s.done, s.dead, s.cancelled))
                   FILTER (WHERE s.generation = chosen.generation) -> 0,
               jsonb_build_array(sum(s.total) - sum(s.redriven), sum(s.done), sum(s.dead) - sum(s.redriven),
                                 sum(s.cancelled))) AS counts
      FROM headrace.stage b
      JOIN headrace.stage s ON s.job = b.job AND s.position = ANY (b.after_positions) AND s.generation <= b.generation
     WHERE b.job = chosen.job AND b.generation = chosen.generation AND b.position = chosen.position
     GROUP BY s.name) t);

-- Everything a holder needs to know about the slice [chosen.next, upto), in one read.
CREATE FUNCTION headrace.slice(chosen headrace.chunk_state, upto integer, given bigint)
RETURNS SETOF headrace.granted
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT given, chosen.job, chosen.tenant, chosen.queue, chosen.generation, chosen.position, chosen.next, upto,
           chosen.attempt, chosen.suspect, chosen.depth, j.graph, p.id, span.first,
           substring(p.payload FROM span.first + 1 FOR span.last - span.first), p.ends, p.keys,
           c.picks[chosen.next + 1 : upto], p.seqs, note.cursors, note.seqs,
           CASE WHEN chosen.kind = 1 THEN headrace.tallies_before(chosen) END, chosen.revokes, NULL::double precision
      FROM headrace.chunk c
      JOIN headrace.chunk p ON p.id = coalesce(c.origin, c.id)
      JOIN headrace.job j ON j.id = chosen.job
     CROSS JOIN LATERAL (
           SELECT headrace.end_at(p.ends, coalesce(c.picks[chosen.next + 1], chosen.next) - 1) AS first,
                  headrace.end_at(p.ends, coalesce(c.picks[upto], upto - 1)) AS last) span
     CROSS JOIN LATERAL (
           SELECT array_agg(n.cursor ORDER BY n.seq) AS cursors, array_agg(n.seq ORDER BY n.seq) AS seqs
             FROM headrace.cursor n
            WHERE n.job = chosen.job AND n.generation = chosen.generation AND n.position = chosen.position
              AND n.seq BETWEEN coalesce(p.seqs[1], p.id * 1024)
                            AND coalesce(p.seqs[cardinality(p.seqs)], p.id * 1024 + 1023)) note
     WHERE c.id = chosen.id;
END;

-- The claims that calls without an answer were granted, once more.
CREATE FUNCTION headrace.grant_again(worker_id text, requests jsonb) RETURNS SETOF headrace.granted
LANGUAGE plpgsql AS $$
DECLARE
    held headrace.claim;
    chosen headrace.chunk_state;
BEGIN
    FOR held IN SELECT * FROM headrace.claim c WHERE c.live AND c.worker = worker_id AND c.step = 0
                   AND requests ? c.request ORDER BY c.fence FOR UPDATE LOOP
        UPDATE headrace.claim c SET until = clock_timestamp() + headrace.seconds(held.hold_s)
         WHERE c.fence = held.fence AND c.until >= clock_timestamp();
        IF FOUND THEN
            SELECT * INTO chosen FROM headrace.chunk_state s WHERE s.id = held.chunk;
            chosen.next := held.lo;
            RETURN QUERY SELECT * FROM headrace.slice(chosen, held.hi, held.fence);
        END IF;
    END LOOP;
END $$;

-- Grant slices for the wants, in their order. The last row has no fence and says when something becomes due. `turns`
-- has an entry per want: how many claims were served before, the last tenant, and the last job of tenants that may come
-- up.
CREATE FUNCTION headrace.claim(worker_id text, holder jsonb, queues text[], rooms integer[], slices integer[],
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

-- Hold on. An expired claim is not revived, and one behind a cancelled gate runs out.
CREATE FUNCTION headrace.renew(worker_id text, holder jsonb, fences bigint[], OUT kept bigint[], OUT ending bigint[])
LANGUAGE plpgsql AS $$
DECLARE
    hold double precision := (holder ->> 'hold_s')::double precision;
    moment timestamptz;
BEGIN
    PERFORM headrace.seen(worker_id, holder ->> 'host', (holder ->> 'pid')::integer, hold, 0);
    PERFORM FROM headrace.claim c WHERE c.fence = ANY (fences) ORDER BY c.fence FOR UPDATE;
    moment := clock_timestamp();
    WITH held AS (
        UPDATE headrace.claim c SET until = moment + headrace.seconds(hold), hold_s = hold FROM headrace.chunk_state s
         WHERE c.fence = ANY (fences) AND c.live AND c.until >= moment AND s.id = c.chunk AND s.gate <> 2
        RETURNING c.fence)
    SELECT coalesce(array_agg(held.fence), '{}') INTO kept FROM held;
    SELECT coalesce(array_agg(c.fence), '{}') INTO ending FROM headrace.claim c
     WHERE c.fence = ANY (fences) AND c.live AND c.until >= moment AND c.fence <> ALL (kept);
END $$;
