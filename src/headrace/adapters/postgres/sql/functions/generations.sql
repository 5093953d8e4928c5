-- Empty tallies for every stage of a generation, as the first one has them.
CREATE FUNCTION headrace.open_generation(job_id text, run integer, stages jsonb) RETURNS void LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO headrace.stage (job, generation, position, name, kind, feeders, feeders_open, arrows, feeds, upstream,
                                after_positions, unique_keys, always, every_generation, stop_early, tolerate_count,
                                tolerate_percent, deadline_s)
    SELECT job_id, run, s.position, s.name, s.kind, s.feeders, s.feeders, s.arrows, s.feeds, s.upstream,
        s.after_positions,
           s.unique_keys, s.always, s.every_generation, s.stop_early, s.tolerate_count, s.tolerate_percent, s.deadline_s
      FROM jsonb_to_recordset(stages) s(
           position integer, name text, kind smallint, feeders integer, arrows integer[], feeds integer[],
           upstream integer[], after_positions integer[], unique_keys boolean, always boolean, every_generation boolean,
           stop_early boolean, tolerate_count bigint, tolerate_percent double precision, deadline_s double precision);
END;

-- Nobody but this call feeds the stages that no stage feeds: what is empty there closes now.
CREATE FUNCTION headrace.seal_roots(job_id text, run integer, ended bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    root headrace.stage;
    owner headrace.job;
    found_ended bigint;
BEGIN
    SELECT * INTO owner FROM headrace.job j WHERE j.id = job_id;
    FOR root IN SELECT * FROM headrace.stage s
                 WHERE s.job = job_id AND s.generation = run AND s.feeders = 0 AND s.kind = 2 ORDER BY s.position LOOP
        IF headrace.opens(root, owner) THEN
            found_ended := headrace.open_item(root, owner);
            IF found_ended IS NOT NULL THEN
                ended := ended || found_ended;
            END IF;
        END IF;
    END LOOP;
    PERFORM headrace.advance(job_id, run, ended, ARRAY(
        SELECT s.position FROM headrace.stage s WHERE s.job = job_id AND s.generation = run AND s.feeders = 0));
END $$;

-- Open the next generation of an ended job with chosen dead letters; their payloads are copied, their seqs and keys
-- kept. The letters were read and locked by the caller in the same transaction, under the job's lock.
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
    -- An event for the generation before may be about to commit: it is waited for, or finds the new one.
    PERFORM pg_advisory_xact_lock(hashtextextended(job_id || '/' || s.position, 5216375))
       FROM (SELECT position FROM jsonb_to_recordset(stages) s(position integer, kind smallint) WHERE kind = 2
              ORDER BY position) s;
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
