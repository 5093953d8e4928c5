-- What operators do to jobs, each verb in one transaction.
--
-- Operators of one job queue on an advisory lock; settlements do not take it. Whoever closes or opens gates first locks
-- every open chunk of the job: the lock on a chunk waits for the settlement that works on it, and the next look sees what
-- that settlement sent. When a look sees nothing but what is locked here, nobody can be sending or opening any more.

-- Take the lock of operators; the job as it is then.
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
