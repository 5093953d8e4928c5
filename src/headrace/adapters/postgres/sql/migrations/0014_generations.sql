-- A job is judged by all its generations. `redriven`: how many dead letters a generation took up in a stage, each of
-- which is an item that an earlier one counts as dead.
ALTER TABLE headrace.stage ADD COLUMN redriven bigint NOT NULL DEFAULT 0;
UPDATE headrace.stage s SET redriven = (
    SELECT count(*) FROM headrace.dead d WHERE d.job = s.job AND d.position = s.position AND d.redriven_in = s.generation)
 WHERE s.generation > 1;

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
CREATE OR REPLACE FUNCTION headrace.finish(owner headrace.job) RETURNS void LANGUAGE plpgsql AS $$
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
-- takes one feeder from every stage behind it; that is noted and applied when the walk gets there. True: the job should
-- stop early.
CREATE OR REPLACE FUNCTION headrace.advance(job_id text, run integer, ended bigint[], visit integer[])
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    here integer;
    target integer;
    fewer integer[] := '{}';
    found_ended bigint;
    counted record;
    stage headrace.stage;
    owner headrace.job;
    closed integer := 0;
    stopping boolean := false;
BEGIN
    LOOP
        SELECT min(v) INTO here FROM unnest(visit) v;
        EXIT WHEN here IS NULL;
        visit := array_remove(visit, here);
        SELECT coalesce(sum(count) FILTER (WHERE fresh), 0) AS total, coalesce(sum(s.done), 0) AS done,
               coalesce(sum(s.dead), 0) AS dead, coalesce(sum(s.cancelled), 0) AS cancelled
          INTO counted FROM headrace.chunk_state s WHERE s.id = ANY (ended) AND s.job = job_id AND s.position = here;
        UPDATE headrace.stage s
           SET total = s.total + counted.total, done = s.done + counted.done, dead = s.dead + counted.dead,
               cancelled = s.cancelled + counted.cancelled, feeders_open = s.feeders_open - coalesce(fewer[here], 0)
         WHERE s.job = job_id AND s.generation = run AND s.position = here
        RETURNING * INTO stage;
        IF counted.dead > 0 AND headrace.stops(stage) THEN
            stopping := true;
        END IF;
        IF fewer[here] > 0 AND stage.feeders_open = 0 AND stage.kind <> 0 THEN
            SELECT * INTO owner FROM headrace.job WHERE id = job_id;
            IF headrace.opens(stage, owner) THEN
                found_ended := headrace.open_item(stage, owner);
                IF found_ended IS NOT NULL THEN
                    UPDATE headrace.stage s SET total = s.total + 1, done = s.done + 1
                     WHERE s.job = job_id AND s.generation = run AND s.position = here RETURNING * INTO stage;
                END IF;
            ELSIF owner.cancelled = 1 AND run > 1 THEN
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
    RETURN stopping;
END $$;

-- What a barrier gets to see of the stages it comes after, in this generation and over all: they are closed, so these
-- counts are final.
CREATE OR REPLACE FUNCTION headrace.tallies_before(chosen headrace.chunk_state) RETURNS jsonb LANGUAGE sql STABLE
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

-- Open the next generation of an ended job with chosen dead letters; their payloads are copied, their seqs and keys
-- kept. The letters were read and locked by the caller in the same transaction, under the job's lock.
CREATE OR REPLACE FUNCTION headrace.redrive(job_id text, stages jsonb, parcels jsonb, payloads bytea[], ends bytea[])
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
        UPDATE headrace.stage s SET redriven = s.redriven + jsonb_array_length(parcel -> 'seqs')
         WHERE s.job = job_id AND s.generation = owner.generation AND s.position = place.position
        RETURNING * INTO stage;
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
ALTER FUNCTION headrace.redrive SET enable_seqscan = off;
ALTER FUNCTION headrace.redrive SET enable_bitmapscan = off;
ALTER FUNCTION headrace.redrive SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION headrace.redrive SET jit = off;

-- Jobs that were redriven before were judged by their newest generation alone.
UPDATE headrace.job j SET state = CASE WHEN EXISTS (SELECT FROM headrace.overall(j.id) o WHERE o.exceeded) THEN 'failed'
                                       WHEN j.state = 'failed' THEN 'finished' ELSE j.state END
 WHERE j.generation > 1 AND j.state <> 'open';
UPDATE headrace.finish f SET state = j.state FROM headrace.job j
 WHERE j.id = f.job AND j.generation = f.generation AND j.state <> 'open' AND j.state <> f.state;
