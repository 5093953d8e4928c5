-- The finish line: folding ended chunks into their stage, closing stages downstream, ending the job.
--
-- A stage closes under its own row lock: sealed (feeders_open = 0), nothing open in it, everything counted has ended.
-- Chunks enter a stage only by a settlement of a chunk of one of its feeders, and that feeder stays open until the
-- settlement has committed. So whoever takes feeders_open to 0 sees every chunk that will ever be in the stage, and
-- everybody who ends a chunk of it queues on the same row: the later one sees both.

-- The one item of a barrier or external stage, as everything before it has closed. If a dead letter of the stage was
-- taken up in this generation, this is that item again and not a second one. The answer is its chunk if it ended at once.
CREATE FUNCTION headrace.open_item(stage headrace.stage, owner headrace.job) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    place headrace.chunk_state;
    letter headrace.dead;
    arrived boolean := false;
BEGIN
    IF stage.generation > 1 THEN
        SELECT * INTO letter FROM headrace.dead d WHERE d.job = stage.job AND d.position = stage.position
           AND d.redriven_in = stage.generation ORDER BY d.generation DESC LIMIT 1;
    END IF;
    place.id := nextval('headrace.chunk_id');
    place.generation := stage.generation;
    place.position := stage.position;
    place.priority := owner.priority;
    place.count := 1;
    place.depth := 0;
    place.kind := stage.kind;
    place.gate := CASE WHEN owner.paused THEN 1 ELSE 0 END;
    place.job := stage.job;
    place.queue := owner.flow || '/' || stage.name;
    place.tenant := owner.tenant;
    IF stage.kind = 2 THEN
        place.due_at := clock_timestamp() + headrace.seconds(stage.deadline_s);
        arrived := EXISTS (SELECT FROM headrace.external_event e WHERE e.job = stage.job
            AND e.position = stage.position);
    END IF;
    -- One msgpack nil.
    INSERT INTO headrace.chunk (id, payload, ends, seqs)
    VALUES (place.id, '\xc0', int4send(1), CASE WHEN letter.seq IS NOT NULL THEN ARRAY[letter.seq] END);
    PERFORM headrace.enter(place);
    PERFORM headrace.suspect(place.id, letter.revokes);
    IF arrived THEN
        UPDATE headrace.chunk_state SET next = 1, done = 1, low = B'1', due_at = NULL WHERE id = place.id;
        RETURN place.id;
    END IF;
    RETURN NULL;
END $$;

-- Whether a stage that has no more feeders gets its one item in this generation. In a redriven one that is so if
-- something before it moved: else the redrive itself let its letter in. Nobody is waited for in a job that has stopped.
CREATE FUNCTION headrace.opens(stage headrace.stage, owner headrace.job) RETURNS boolean LANGUAGE sql STABLE
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

-- Whether a stage has more dead than it bears.
CREATE FUNCTION headrace.exceeded(stage headrace.stage, total bigint) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN CASE WHEN stage.tolerate_percent IS NULL THEN stage.dead > stage.tolerate_count
       ELSE stage.dead * 100 > stage.tolerate_percent * total END;

-- Whether a stage that wants to stop early has seen too many dead. A share is judged only when the total is known: never
-- early in a stage that feeds itself.
CREATE FUNCTION headrace.stops(stage headrace.stage) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    waiting bigint := 0;
BEGIN
    IF NOT stage.stop_early OR stage.dead = 0 OR (stage.tolerate_percent IS NOT NULL
        AND (stage.feeders_open > 0 OR stage.position = ANY (stage.feeds))) THEN
        RETURN false;
    END IF;
    IF stage.tolerate_percent IS NOT NULL THEN
        SELECT coalesce(sum(count), 0) INTO waiting FROM headrace.chunk_state s
         WHERE s.job = stage.job AND s.open AND s.generation = stage.generation AND s.position = stage.position
           AND s.fresh;
    END IF;
    RETURN headrace.exceeded(stage, stage.total + waiting)
       AND NOT EXISTS (SELECT FROM headrace.job j WHERE j.id = stage.job AND j.cancelled <> 0);
END $$;

-- Only a sealed stage in which nothing is open and everything counted has ended crosses its line. The caller holds the
-- row's lock, taken by a statement before this one: a check inside the locking statement would look with a snapshot of
-- before the wait.
CREATE FUNCTION headrace.can_close(stage headrace.stage) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF stage.feeders_open > 0 OR stage.closed_at IS NOT NULL
       OR stage.done + stage.dead + stage.cancelled <> stage.total THEN
        RETURN false;
    END IF;
    -- The newest chunk is the likeliest to be open, and before it in the index lie rows that are dead already.
    RETURN NOT EXISTS (
        SELECT FROM headrace.chunk_state s
         WHERE s.job = stage.job AND s.open AND s.generation = stage.generation AND s.position = stage.position
         ORDER BY s.id DESC LIMIT 1);
END $$;

-- The counts of every stage of a job over all its generations, and whether its dead are more than it tolerates: an item
-- that was redriven counts once, where its newest generation has it.
CREATE FUNCTION headrace.overall(job_id text)
RETURNS TABLE (name text, total bigint, done bigint, dead bigint, cancelled bigint, exceeded boolean)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT t.name, t.total, t.done, t.dead, t.cancelled,
           CASE WHEN t.tolerate_percent IS NULL THEN t.dead > t.tolerate_count
                ELSE t.dead * 100 > t.tolerate_percent * t.total END
      FROM (SELECT s.name, (sum(s.total) - sum(s.redriven))::bigint AS total, sum(s.done)::bigint AS done,
                   (sum(s.dead) - sum(s.redriven))::bigint AS dead, sum(s.cancelled)::bigint AS cancelled,
                   min(s.tolerate_count) AS tolerate_count, min(s.tolerate_percent) AS tolerate_percent
              FROM headrace.stage s WHERE s.job = job_id GROUP BY s.name) t;
END;

-- The finish row and its event, in the transaction that closed the last stage. The state is that of the whole job: a
-- cancel ends the first passage as cancelled, whatever died in it; a job that is redriven stays failed as long as too
-- much of it is dead.
CREATE FUNCTION headrace.finish(owner headrace.job) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    name text := owner.id || '.' || owner.generation || '.completed';
    final text;
    own jsonb;
    every jsonb;
BEGIN
    SELECT jsonb_object_agg(s.name, jsonb_build_object(
               'total', s.total, 'done', s.done, 'dead', s.dead, 'cancelled', s.cancelled))
      INTO own FROM headrace.stage s WHERE s.job = owner.id AND s.generation = owner.generation;
    SELECT CASE WHEN owner.cancelled = 1 AND owner.generation = 1 THEN 'cancelled'
                WHEN bool_or(o.exceeded) THEN 'failed'
                WHEN owner.cancelled = 1 THEN 'cancelled' ELSE 'finished' END,
           jsonb_object_agg(o.name, jsonb_build_object(
               'total', o.total, 'done', o.done, 'dead', o.dead, 'cancelled', o.cancelled))
      INTO final, every FROM headrace.overall(owner.id) o;
    INSERT INTO headrace.finish (job, generation, state, event_id, crossed_at)
    VALUES (owner.id, owner.generation, final, name, moment);
    INSERT INTO headrace.event (event_id, topic, job, generation, body, happened_at)
    VALUES (name, 'job.completed', owner.id, owner.generation, jsonb_build_object(
        'job', owner.id, 'flow', owner.flow, 'tenant', owner.tenant, 'generation', owner.generation, 'state', final,
        'stages', own, 'overall', every), moment);
    UPDATE headrace.job SET state = final, ended_at = moment, paused = false,
           prune_at = moment + headrace.seconds(least(owner.keep_s, 1e9)) WHERE id = owner.id;
END $$;

-- Fold one job's ended chunks and walk forward: each stage row is locked once, in order of position. Closing a stage
-- takes one feeder from every stage behind it; that is noted and applied when the walk gets there. A stop ends chunks of
-- any stage, so the walk begins anew with them.
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
