-- Submits and sends ahead. Sends arrive as their descriptions in JSON beside arrays of payloads and ends; `at` is the
-- index into both.

-- Insert the payload of one parcel and enter it; NULL if nothing of it is new, true if it ended at once.
CREATE FUNCTION headrace.insert_parcel(INOUT place headrace.chunk_state, payload bytea, ends bytea, keys jsonb,
    only_new boolean,
                                       OUT ended boolean) LANGUAGE plpgsql AS $$
BEGIN
    place.id := nextval('headrace.chunk_id');
    INSERT INTO headrace.chunk (id, payload, ends, keys)
    VALUES (place.id, payload, ends, CASE WHEN jsonb_typeof(keys) = 'array' THEN keys::text END);
    IF only_new THEN
        place := headrace.only_new(place);
    END IF;
    IF place.count > 0 THEN
        ended := headrace.enter(place);
    END IF;
END $$;

-- Make staged parcels part of the account under the conditions of `place`; the ids of those that ended at once.
CREATE FUNCTION headrace.flip(staged_by text, numbers integer[], place headrace.chunk_state) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    parcel record;
    entered headrace.chunk_state;
    flow text;
    ended bigint[] := '{}';
BEGIN
    SELECT j.flow INTO flow FROM headrace.job j WHERE j.id = place.job;
    FOR parcel IN
        SELECT t.number, t.chunk, t.count, t.depth, t.delay_s, s.position, s.name, s.unique_keys FROM headrace.staged t
          JOIN headrace.stage s ON s.job = place.job AND s.generation = place.generation AND s.name = t.stage
         WHERE t.owner = staged_by AND (numbers IS NULL OR t.number = ANY (numbers)) ORDER BY t.number
    LOOP
        entered := place;
        entered.id := parcel.chunk;
        entered.position := parcel.position;
        entered.queue := flow || '/' || parcel.name;
        entered.count := parcel.count;
        entered.depth := parcel.depth;
        entered.kind := 0;
        IF parcel.delay_s > 0 THEN
            entered.due_at := coalesce(place.due_at, clock_timestamp()) + headrace.seconds(parcel.delay_s);
        END IF;
        IF parcel.unique_keys THEN
            entered := headrace.only_new(entered);
        END IF;
        IF entered.count > 0 AND headrace.enter(entered) THEN
            ended := ended || entered.id;
        END IF;
        DELETE FROM headrace.staged t WHERE t.owner = staged_by AND t.number = parcel.number;
    END LOOP;
    RETURN ended;
END $$;

-- What was never flipped was never there.
CREATE FUNCTION headrace.drop_staged(staged_by text) RETURNS void LANGUAGE sql
BEGIN ATOMIC
    WITH gone AS (DELETE FROM headrace.staged t WHERE t.owner = staged_by RETURNING t.chunk)
    DELETE FROM headrace.chunk c USING gone WHERE c.id = gone.chunk;
END;

-- Write parcels ahead. False: the claim is lost. A number seen before under this owner is not written again.
CREATE FUNCTION headrace.send(staged_by text, under bigint, parcels jsonb, payloads bytea[], ends bytea[])
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    parcel jsonb;
    fresh_id bigint;
BEGIN
    IF under IS NOT NULL THEN
        PERFORM FROM headrace.claim c WHERE c.fence = under FOR UPDATE;
        IF NOT EXISTS (SELECT FROM headrace.claim c WHERE c.fence = under AND c.live
            AND c.until >= clock_timestamp()) THEN
            RETURN false;
        END IF;
    ELSIF EXISTS (SELECT FROM headrace.job j WHERE j.id = staged_by) THEN
        RETURN true;
    END IF;
    FOR parcel IN SELECT * FROM jsonb_array_elements(parcels) LOOP
        INSERT INTO headrace.staged (owner, number, chunk, stage, count, depth, delay_s)
        VALUES (staged_by, (parcel ->> 'number')::integer, nextval('headrace.chunk_id'), parcel ->> 'stage',
                (parcel ->> 'count')::integer, (parcel ->> 'depth')::integer, (parcel ->> 'delay_s')::double precision)
        ON CONFLICT DO NOTHING RETURNING chunk INTO fresh_id;
        IF fresh_id IS NOT NULL THEN
            INSERT INTO headrace.chunk (id, payload, ends, keys)
            VALUES (fresh_id, payloads[(parcel ->> 'at')::integer], ends[(parcel ->> 'at')::integer],
                    CASE WHEN jsonb_typeof(parcel -> 'keys') = 'array' THEN parcel ->> 'keys' END);
        END IF;
    END LOOP;
    RETURN true;
END $$;

-- Open a job with its items, or find the one that this submission opened before. `given` holds the columns of the job,
-- its stages and the descriptions of its parcels.
CREATE FUNCTION headrace.submit(given jsonb, payloads bytea[], ends bytea[],
                                OUT job_id text, OUT created boolean, OUT first_digest text, OUT rang boolean)
LANGUAGE plpgsql AS $$
DECLARE
    parcel jsonb;
    place headrace.chunk_state;
    base headrace.chunk_state;
    ended bigint[] := '{}';
BEGIN
    PERFORM headrace.hush();
    IF NOT EXISTS (SELECT FROM headrace.graph g WHERE g.digest = given ->> 'graph') THEN
        INSERT INTO headrace.graph VALUES (given ->> 'graph', given ->> 'graph_body') ON CONFLICT DO NOTHING;
    END IF;
    -- A submission of the same job or key that is still in flight is waited for here; what it left is seen below.
    INSERT INTO headrace.job (id, tenant, flow, graph, key, digest, priority, stages_open, keep_s)
    VALUES (given ->> 'job', given ->> 'tenant', given ->> 'flow', given ->> 'graph', given ->> 'key',
        given ->> 'digest',
            (given ->> 'priority')::integer, jsonb_array_length(given -> 'stages'),
                (given ->> 'keep_s')::double precision)
    ON CONFLICT DO NOTHING RETURNING id, digest, true INTO job_id, first_digest, created;
    IF created IS NULL THEN
        SELECT j.id, j.digest, false INTO job_id, first_digest, created FROM headrace.job j
         WHERE j.id = given ->> 'job'
            OR (j.tenant = given ->> 'tenant' AND j.flow = given ->> 'flow' AND j.key = given ->> 'key')
         ORDER BY j.id = given ->> 'job' DESC LIMIT 1;
        PERFORM headrace.drop_staged(given ->> 'job');
        rang := false;
        RETURN;
    END IF;
    PERFORM headrace.open_generation(job_id, 1, given -> 'stages');
    base.generation := 1;
    base.priority := (given ->> 'priority')::integer;
    base.kind := 0;
    base.gate := 0;
    base.job := job_id;
    base.tenant := given ->> 'tenant';
    IF (given ->> 'delay_s')::double precision > 0 THEN
        base.due_at := clock_timestamp() + headrace.seconds((given ->> 'delay_s')::double precision);
    END IF;
    IF (given ->> 'uploaded')::integer > 0 THEN
        IF (SELECT count(*) FROM headrace.staged t WHERE t.owner = job_id) <> (given ->> 'uploaded')::integer THEN
            RAISE EXCEPTION 'not all that was uploaded for job % is there: upload again under a new job', job_id;
        END IF;
        IF EXISTS (
            SELECT FROM headrace.staged t LEFT JOIN headrace.stage s
                ON s.job = job_id AND s.generation = 1 AND s.name = t.stage AND s.kind = 0 AND s.feeders = 0
             WHERE t.owner = job_id AND s.position IS NULL) THEN
            RAISE EXCEPTION 'the upload of job % has items for a stage that takes no submitted items', job_id;
        END IF;
        PERFORM headrace.flip(job_id, NULL, base);
    END IF;
    FOR parcel IN SELECT * FROM jsonb_array_elements(given -> 'parcels') LOOP
        place := base;
        place.position := (parcel ->> 'position')::integer;
        place.queue := (given ->> 'flow') || '/' || (parcel ->> 'stage');
        place.count := (parcel ->> 'count')::integer;
        place.depth := (parcel ->> 'depth')::integer;
        IF (parcel ->> 'delay_s')::double precision > 0 THEN
            place.due_at := coalesce(base.due_at, clock_timestamp())
                          + headrace.seconds((parcel ->> 'delay_s')::double precision);
        END IF;
        PERFORM headrace.insert_parcel(place, payloads[(parcel ->> 'at')::integer], ends[(parcel ->> 'at')::integer],
                                       parcel -> 'keys', (parcel ->> 'unique')::boolean);
    END LOOP;
    PERFORM headrace.seal_roots(job_id, 1, ended);
    rang := headrace.rang();
END $$;

-- Submit inside a transaction that belongs to the caller, on the caller's own connection. A store of another version is
-- an answer and not an error: an error would end the caller's transaction. `told` sends the wake-up with the caller's
-- commit, which makes such commits of the whole database wait for each other.
CREATE FUNCTION headrace.submit_in(known integer, told boolean, given jsonb, payloads bytea[], ends bytea[],
                                   OUT version integer, OUT job_id text, OUT created boolean, OUT first_digest text)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT max(m.number) INTO version FROM headrace.migration m;
    IF version IS DISTINCT FROM known THEN
        RETURN;
    END IF;
    SELECT s.job_id, s.created, s.first_digest INTO job_id, created, first_digest
      FROM headrace.submit(given, payloads, ends) s;
    IF told AND created THEN
        PERFORM pg_notify('headrace', '');
    END IF;
END $$;
