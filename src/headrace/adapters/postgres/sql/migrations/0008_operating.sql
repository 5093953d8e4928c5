-- What operators do to jobs, each verb in one transaction.
--
-- Operators of one job queue on an advisory lock; settlements do not take it. Whoever closes or opens gates first locks
-- every open chunk of the job: the lock on a chunk waits for the settlement that works on it, and the next look sees what
-- that settlement sent. When a look sees nothing but what is locked here, nobody can be sending or opening any more.

CREATE FUNCTION headrace.alone_on(job_id text) RETURNS headrace.job LANGUAGE plpgsql AS $$
DECLARE
    owner headrace.job;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(job_id, 5216374));
    SELECT * INTO owner FROM headrace.job j WHERE j.id = job_id;
    RETURN owner;
END $$;

-- Keep everybody from the open chunks of a job. A look whose locks had to be waited for may find a chunk ended and not
-- yet see what its settlement sent: only a look after it can tell that nothing is left.
CREATE FUNCTION headrace.lock_open(job_id text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    locked bigint;
BEGIN
    LOOP
        locked := cardinality(ARRAY(
            SELECT s.id FROM headrace.chunk_state s WHERE s.job = job_id AND s.open ORDER BY s.id FOR UPDATE));
        EXIT WHEN locked = (SELECT count(*) FROM headrace.chunk_state s WHERE s.job = job_id AND s.open);
    END LOOP;
END $$;

-- End what waits, and put everything that is held behind a closed gate. NULL: no such job. False: it had ended.
-- `cause`: 1 a user wants it, 2 too much died. A stop leaves barriers alone, because they run in failed jobs; a user may
-- end those as well.
CREATE FUNCTION headrace.cancel(job_id text, cause smallint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    owner headrace.job := headrace.alone_on(job_id);
    ended bigint[];
BEGIN
    IF owner.id IS NULL THEN
        RETURN NULL;
    END IF;
    IF owner.state <> 'open' OR owner.cancelled = 1 OR owner.cancelled = cause THEN
        RETURN owner.state = 'open';
    END IF;
    -- A stop comes after the settlement that found it necessary: by now the job may be in another generation.
    IF cause = 2 AND NOT EXISTS (SELECT FROM headrace.stage s
                                  WHERE s.job = job_id AND s.generation = owner.generation AND headrace.stops(s)) THEN
        RETURN false;
    END IF;
    PERFORM headrace.lock_open(job_id);
    -- What was in flight may have ended the job meanwhile.
    UPDATE headrace.job j SET cancelled = cause WHERE j.id = job_id AND j.state = 'open';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    WITH gone AS (
        UPDATE headrace.chunk_state s
           SET gate = 2, next = s.count, cancelled = s.cancelled + (s.count - s.next), due_at = NULL,
               high = overlay(coalesce(s.high,
                   headrace.zeros(s.count)) PLACING ~headrace.zeros(s.count - s.next) FROM s.next + 1)
         WHERE s.job = job_id AND s.open AND s.gate <> 2 AND (cause = 1 OR s.kind <> 1) RETURNING s.id, s.open)
    SELECT coalesce(array_agg(g.id) FILTER (WHERE NOT g.open), '{}') INTO ended FROM gone g;
    PERFORM headrace.fold(ended);
    RETURN true;
END $$;

-- Open or close the gate of everything of a job that is not cancelled. NULL: no such job. False: nothing to pause or
-- resume.
CREATE FUNCTION headrace.set_paused(job_id text, pausing boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    owner headrace.job := headrace.alone_on(job_id);
BEGIN
    IF owner.id IS NULL THEN
        RETURN NULL;
    END IF;
    IF owner.state <> 'open' OR (NOT pausing AND NOT owner.paused) THEN
        RETURN false;
    END IF;
    PERFORM headrace.lock_open(job_id);
    UPDATE headrace.chunk_state s SET gate = 1 - s.gate
     WHERE s.job = job_id AND s.open AND s.gate = CASE WHEN pausing THEN 0 ELSE 1 END;
    UPDATE headrace.job j SET paused = pausing WHERE j.id = job_id AND j.state = 'open';
    RETURN FOUND;
END $$;

-- Where an item of a generation is now: moves lead to ever newer chunks.
CREATE FUNCTION headrace.place_of(job_id text, run integer, stage_position integer, wanted bigint, OUT chunk bigint,
    OUT item integer)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT s.id, array_position(c.picks, pick.at) - 1 FROM headrace.chunk_state s
      JOIN headrace.chunk c ON c.id = s.id
      JOIN headrace.chunk p ON p.id = c.origin
     CROSS JOIN LATERAL (SELECT CASE WHEN p.seqs IS NOT NULL THEN array_position(p.seqs, wanted) - 1
                                     WHEN p.id = wanted / 1024 THEN (wanted % 1024)::integer END AS at) pick
     WHERE s.job = job_id AND s.generation = run AND s.position = stage_position AND pick.at = ANY (c.picks)
    UNION ALL
    SELECT s.id, CASE WHEN c.seqs IS NOT NULL THEN array_position(c.seqs, wanted) - 1 ELSE (wanted % 1024)::integer END
      FROM headrace.chunk_state s
      JOIN headrace.chunk c ON c.id = s.id
     WHERE s.job = job_id AND s.generation = run AND s.position = stage_position AND c.origin IS NULL
       AND (wanted = ANY (c.seqs) OR (c.seqs IS NULL AND c.id = wanted / 1024 AND wanted % 1024 < s.count))
     ORDER BY 1 DESC LIMIT 1;
END;

-- One waiting item ends; its waiting neighbours move on to a chunk of their own.
CREATE FUNCTION headrace.split(state headrace.chunk_state, item integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    others integer[] := ARRAY(SELECT at FROM generate_series(state.next, state.count - 1) at WHERE at <> item);
    still_open boolean;
BEGIN
    IF cardinality(others) > 0 THEN
        PERFORM headrace.carry_on(state, others);
    END IF;
    UPDATE headrace.chunk_state s
       SET next = s.count, due_at = NULL, cancelled = s.cancelled + 1, moved = s.moved + cardinality(others),
           low = coalesce(s.low, headrace.zeros(s.count)) | headrace.plane(others, s.count),
           high = coalesce(s.high, headrace.zeros(s.count)) | headrace.plane(others || item, s.count)
     WHERE s.id = state.id RETURNING s.open INTO still_open;
    IF NOT still_open THEN
        PERFORM headrace.fold(ARRAY[state.id]);
    END IF;
END $$;

-- End one item: now if it waits, at its next return if it is held. NULL: no such item. False: it had ended.
CREATE FUNCTION headrace.cancel_item(job_id text, stage_position integer, wanted bigint, OUT answer boolean,
    OUT rang boolean)
LANGUAGE plpgsql AS $$
DECLARE
    owner headrace.job := headrace.alone_on(job_id);
    found_at record;
    again record;
    state headrace.chunk_state;
    settled headrace.claim;
BEGIN
    PERFORM headrace.hush();
    SELECT * INTO found_at FROM headrace.place_of(job_id, owner.generation, stage_position, wanted);
    LOOP
        EXIT WHEN found_at.chunk IS NULL;
        SELECT * INTO state FROM headrace.chunk_state s WHERE s.id = found_at.chunk FOR UPDATE;
        SELECT * INTO again FROM headrace.place_of(job_id, owner.generation, stage_position, wanted);
        EXIT WHEN again.chunk = found_at.chunk;
        found_at := again;
    END LOOP;
    rang := false;
    IF found_at.chunk IS NULL THEN
        -- An item of an earlier generation has ended.
        answer := CASE WHEN EXISTS (
            SELECT FROM generate_series(1, owner.generation - 1) run, headrace.place_of(job_id, run, stage_position,
                wanted) p
             WHERE p.chunk IS NOT NULL) THEN false END;
        RETURN;
    END IF;
    IF found_at.item >= state.next THEN
        PERFORM headrace.split(state, found_at.item);
        answer := true;
        rang := headrace.rang();
        RETURN;
    END IF;
    SELECT * INTO settled FROM headrace.claim c
     WHERE c.live AND c.chunk = state.id AND c.lo <= found_at.item AND c.hi > found_at.item;
    answer := settled.fence IS NOT NULL
          AND (settled.low IS NULL OR get_bit(headrace.unsettled(settled), found_at.item - settled.lo) = 1);
    IF answer THEN
        INSERT INTO headrace.item_cancel (job, generation, position, seq)
        VALUES (job_id, owner.generation, stage_position, wanted) ON CONFLICT DO NOTHING;
    END IF;
END $$;

-- The event an external stage waits for. NULL: the stage opens at this very moment, ask again. Otherwise whether it was
-- the first.
CREATE FUNCTION headrace.close_external(job_id text, stage_position integer, event text, OUT first boolean,
    OUT rang boolean,
                                        OUT stopping text[]) LANGUAGE plpgsql AS $$
DECLARE
    run integer;
    chunk_id bigint;
BEGIN
    PERFORM headrace.hush();
    rang := false;
    stopping := '{}';
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
        stopping := headrace.fold(ARRAY[chunk_id]);
        rang := headrace.rang();
    END IF;
END $$;

-- Open the next generation of an ended job with chosen dead letters; their payloads are copied, their seqs and keys
-- kept. The letters were read by the caller in the same transaction, under the job's lock.
CREATE FUNCTION headrace.redrive(job_id text, stages jsonb, parcels jsonb, payloads bytea[], ends bytea[])
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    owner headrace.job;
    parcel jsonb;
    place headrace.chunk_state;
    stage headrace.stage;
    moving integer[] := ARRAY(SELECT (p ->> 'position')::integer FROM jsonb_array_elements(parcels) p);
    found_ended bigint;
    ended bigint[] := '{}';
BEGIN
    UPDATE headrace.job j SET state = 'open', generation = j.generation + 1, stages_open = jsonb_array_length(stages),
           cancelled = 0, ended_at = NULL, prune_at = NULL WHERE j.id = job_id RETURNING * INTO owner;
    PERFORM headrace.hush();
    PERFORM headrace.open_generation(job_id, owner.generation, stages);
    place.generation := owner.generation;
    place.priority := owner.priority;
    place.gate := 0;
    place.job := job_id;
    place.tenant := owner.tenant;
    FOR parcel IN SELECT * FROM jsonb_array_elements(parcels) LOOP
        place.position := (parcel ->> 'position')::integer;
        -- What a streaming item has made visible stays: it goes on from there.
        WITH taken AS (
            UPDATE headrace.dead d SET redriven_in = owner.generation
             WHERE d.job = job_id AND d.position = place.position AND d.redriven_in IS NULL
               AND d.seq = ANY (ARRAY(SELECT s::bigint FROM jsonb_array_elements_text(parcel -> 'seqs') s))
            RETURNING d.generation, d.seq)
        INSERT INTO headrace.cursor (job, generation, position, seq, cursor)
        SELECT n.job, owner.generation, n.position, n.seq, n.cursor FROM taken t JOIN headrace.cursor n
            ON n.job = job_id AND n.generation = t.generation AND n.position = place.position AND n.seq = t.seq;
        SELECT * INTO stage FROM headrace.stage s
         WHERE s.job = job_id AND s.generation = owner.generation AND s.position = place.position;
        IF stage.kind <> 0 THEN
            -- If something before it moves, the stage opens when that has closed, and its letter goes on then.
            IF NOT stage.upstream && moving THEN
                found_ended := headrace.open_item(stage, owner);
                ended := ended || CASE WHEN found_ended IS NOT NULL THEN ARRAY[found_ended] END;
            END IF;
            CONTINUE;
        END IF;
        place.id := nextval('headrace.chunk_id');
        place.kind := 0;
        place.queue := owner.flow || '/' || (parcel ->> 'stage');
        place.count := (parcel ->> 'count')::integer;
        place.depth := (parcel ->> 'depth')::integer;
        INSERT INTO headrace.chunk (id, payload, ends, keys, seqs)
        VALUES (place.id, payloads[(parcel ->> 'at')::integer], ends[(parcel ->> 'at')::integer],
                CASE WHEN jsonb_typeof(parcel -> 'keys') = 'array' THEN parcel ->> 'keys' END,
                ARRAY(SELECT s::bigint FROM jsonb_array_elements_text(parcel -> 'seqs') s));
        PERFORM headrace.enter(place);
        PERFORM headrace.suspect(place.id, ARRAY(
            SELECT f::bigint FROM jsonb_array_elements_text(parcel -> 'revokes') f));
    END LOOP;
    PERFORM headrace.seal_roots(job_id, owner.generation, ended);
    RETURN headrace.rang();
END $$;
