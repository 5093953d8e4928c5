-- External stages whose deadline has passed: their one item dies, and tolerance decides. In a transaction of its own,
-- because it begins with chunk states.
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

-- The event an external stage waits for. NULL: the stage opens at this very moment, ask again. Otherwise whether it was
-- the first.
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
