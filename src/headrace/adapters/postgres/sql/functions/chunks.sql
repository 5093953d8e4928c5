-- Small parts that the verbs share: bit planes, places of items, and how chunks enter the account.
--
-- All functions are VOLATILE, so under READ COMMITTED each of their statements sees everything that was committed
-- before that statement began. The account relies on it: whoever has waited for a row lock reads what the holder left.
-- Rows are locked in one order everywhere: claims by fence, chunk states by id, unique keys by key, stages by
-- (job, position), the job last.

-- A plane on which nothing has ended.
CREATE FUNCTION headrace.zeros(width integer) RETURNS bit varying LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN repeat('0', width)::bit varying;

-- A plane with the given items set.
CREATE FUNCTION headrace.plane(indexes integer[], width integer) RETURNS bit varying LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    bits bit varying := headrace.zeros(width);
    at integer;
BEGIN
    FOREACH at IN ARRAY indexes LOOP
        bits := set_bit(bits, at, 1);
    END LOOP;
    RETURN bits;
END $$;

-- The items set on a plane, ascending.
CREATE FUNCTION headrace.indexes(bits bit varying) RETURNS integer[] LANGUAGE sql IMMUTABLE
RETURN ARRAY(SELECT at FROM generate_series(0, length(bits) - 1) at WHERE get_bit(bits, at) = 1 ORDER BY at);

-- Where an item ends in its payload; -1 is before the first.
CREATE FUNCTION headrace.end_at(ends bytea, at integer) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN at < 0 THEN 0 ELSE
    (get_byte(ends, at * 4) << 24) + (get_byte(ends, at * 4 + 1) << 16)
    + (get_byte(ends, at * 4 + 2) << 8) + get_byte(ends, at * 4 + 3) END;

-- Which items of the payload chunk the items `offsets` of a chunk are.
CREATE FUNCTION headrace.picks_of(chunk headrace.chunk, offsets integer[]) RETURNS integer[] LANGUAGE sql STABLE
RETURN CASE WHEN chunk.picks IS NULL THEN offsets
    ELSE ARRAY(SELECT chunk.picks[at + 1] FROM unnest(offsets) WITH ORDINALITY o(at, n) ORDER BY n) END;

-- Items of a chunk with what a dead letter or a note needs to know of them.
CREATE FUNCTION headrace.items_of(chunk_id bigint, offsets integer[])
RETURNS TABLE (item integer, seq bigint, key text, payload bytea) LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT o.at,
           CASE WHEN p.seqs IS NULL THEN p.id * 1024 + i.pick ELSE p.seqs[i.pick + 1] END,
           (p.keys::jsonb) ->> i.pick,
           substring(p.payload FROM headrace.end_at(p.ends, i.pick - 1) + 1
                     FOR headrace.end_at(p.ends, i.pick) - headrace.end_at(p.ends, i.pick - 1))
      FROM headrace.chunk c
      JOIN headrace.chunk p ON p.id = coalesce(c.origin, c.id)
     CROSS JOIN unnest(offsets) o(at)
     CROSS JOIN LATERAL (SELECT CASE WHEN c.picks IS NULL THEN o.at ELSE c.picks[o.at + 1] END AS pick) i
     WHERE c.id = chunk_id;
END;

-- The seqs alone, without touching a payload.
CREATE FUNCTION headrace.seqs_of(chunk_id bigint, offsets integer[])
RETURNS TABLE (item integer, seq bigint) LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT o.at, CASE WHEN p.seqs IS NULL THEN p.id * 1024 + i.pick ELSE p.seqs[i.pick + 1] END
      FROM headrace.chunk c
      JOIN headrace.chunk p ON p.id = coalesce(c.origin, c.id)
     CROSS JOIN unnest(offsets) o(at)
     CROSS JOIN LATERAL (SELECT CASE WHEN c.picks IS NULL THEN o.at ELSE c.picks[o.at + 1] END AS pick) i
     WHERE c.id = chunk_id;
END;

-- A chunk for items moved from another one: same payload, same seqs; `place` says under which conditions they wait.
CREATE FUNCTION headrace.carry_on(place headrace.chunk_state, offsets integer[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    source headrace.chunk;
    fresh_id bigint := nextval('headrace.chunk_id');
BEGIN
    SELECT id, origin, NULL, NULL, NULL, picks, NULL INTO source FROM headrace.chunk WHERE id = place.id;
    INSERT INTO headrace.chunk (id, origin, picks)
    VALUES (fresh_id, coalesce(source.origin, source.id), headrace.picks_of(source, offsets));
    INSERT INTO headrace.chunk_state (id, due_at, generation, position, priority, count, depth, attempt, crashes, kind,
                                      gate, fresh, suspect, job, queue, tenant, revokes)
    VALUES (fresh_id, place.due_at, place.generation, place.position, place.priority, cardinality(offsets), place.depth,
            place.attempt, place.crashes, place.kind, place.gate, false, place.suspect, place.job, place.queue,
            place.tenant, place.revokes);
    PERFORM headrace.ring();
END $$;

-- The state row of a chunk whose payload is there: it waits, or ends at once behind a cancelled gate.
-- The answer says whether it ended, so that the caller folds it.
CREATE FUNCTION headrace.enter(place headrace.chunk_state) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF place.gate = 2 THEN
        INSERT INTO headrace.chunk_state (id, generation, position, priority, count, next, cancelled, depth, kind, gate,
                                          job, queue, tenant, high)
        VALUES (place.id, place.generation, place.position, place.priority, place.count, place.count, place.count,
                place.depth, place.kind, 2, place.job, place.queue, place.tenant, ~headrace.zeros(place.count));
        RETURN true;
    END IF;
    INSERT INTO headrace.chunk_state (id, due_at, generation, position, priority, count, depth, kind, gate, job, queue,
                                      tenant)
    VALUES (place.id, place.due_at, place.generation, place.position, place.priority, place.count, place.depth,
            place.kind, place.gate, place.job, place.queue, place.tenant);
    PERFORM headrace.ring();
    RETURN false;
END $$;

-- Items that were in lost claims before: they run alone, and whoever holds them tells the sinks of these fences.
CREATE FUNCTION headrace.suspect(chunk_id bigint, lost bigint[]) RETURNS void LANGUAGE sql
BEGIN ATOMIC
    UPDATE headrace.chunk_state s SET suspect = true, revokes = lost WHERE s.id = chunk_id AND cardinality(lost) > 0;
END;

-- Keep only items whose keys this stage has not seen in this job; keyless items always pass. Keys are inserted sorted,
-- so that two senders of the same keys queue instead of deadlocking. The chunk is written anew if anything was left
-- out; the answer is its count, and its id through `place`.
CREATE FUNCTION headrace.only_new(INOUT place headrace.chunk_state) LANGUAGE plpgsql AS $$
DECLARE
    source headrace.chunk;
    kept integer[];
BEGIN
    SELECT * INTO source FROM headrace.chunk WHERE id = place.id;
    IF source.keys IS NULL THEN
        RETURN;
    END IF;
    WITH offered AS (
        SELECT key, (at - 1)::integer AS item
            FROM jsonb_array_elements_text(source.keys::jsonb) WITH ORDINALITY k(key, at)
    ), taken AS (
        INSERT INTO headrace.unique_key (job, position, key)
        SELECT DISTINCT place.job, place.position, key COLLATE "C" AS key FROM offered WHERE key IS NOT NULL
            ORDER BY key
        ON CONFLICT DO NOTHING RETURNING key
    )
    SELECT coalesce(array_agg(item ORDER BY item), '{}') INTO kept FROM (
        SELECT item FROM offered WHERE key IS NULL
        UNION ALL
        SELECT min(o.item) FROM offered o JOIN taken t ON t.key = o.key GROUP BY o.key) found;
    IF cardinality(kept) = place.count THEN
        RETURN;
    END IF;
    DELETE FROM headrace.chunk WHERE id = source.id;
    place.count := cardinality(kept);
    IF place.count > 0 THEN
        place.id := nextval('headrace.chunk_id');
        INSERT INTO headrace.chunk (id, payload, ends, keys)
        SELECT place.id, string_agg(piece, '' ORDER BY item), string_agg(int4send(size_until::integer), ''
            ORDER BY item),
               jsonb_agg(key ORDER BY item)::text
          FROM (SELECT item, key, piece, sum(length(piece)) OVER (ORDER BY item) AS size_until
                  FROM (SELECT item, source.keys::jsonb ->> item AS key,
                               substring(source.payload FROM headrace.end_at(source.ends, item - 1) + 1
                                   FOR headrace.end_at(source.ends, item) - headrace.end_at(source.ends,
                                       item - 1)) AS piece
                          FROM unnest(kept) item) pieces) sized;
    END IF;
END $$;
