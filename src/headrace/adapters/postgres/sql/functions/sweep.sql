-- What any worker does for everybody: end expired claims, and what retention has let go.

-- Settle an expired claim: its unsettled items come back as suspects. If the claim ran alone and had begun, its first
-- unsettled item was the only one started, and that one is charged: it dies of `loss` at crashes_max. The answer is
-- whether the chunk ended.
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
CREATE FUNCTION headrace.sweep(crashes_max integer, loss jsonb, OUT lost integer, OUT wait_s double precision,
                               OUT rang boolean) LANGUAGE plpgsql AS $$
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
    PERFORM headrace.fold(ended);
    SELECT greatest(0, extract(epoch FROM c.until - clock_timestamp())) INTO wait_s FROM headrace.claim c WHERE c.live
     ORDER BY c.until LIMIT 1;
    rang := headrace.rang();
END $$;

-- A bounded piece of forgetting: answers past ten hold times, workers long gone, uploads whose submit never came.
CREATE FUNCTION headrace.forget() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM headrace.claim c WHERE c.fence IN (
        SELECT f.fence FROM headrace.claim f WHERE NOT f.live AND f.until < clock_timestamp()
         ORDER BY f.until LIMIT 20000 FOR UPDATE SKIP LOCKED);
    DELETE FROM headrace.worker w WHERE w.seen_at < clock_timestamp() - interval '1 hour';
    PERFORM headrace.drop_staged(old.owner) FROM (
        SELECT DISTINCT t.owner FROM headrace.staged t WHERE t.staged_at < clock_timestamp() - interval '1 day'
           AND NOT EXISTS (SELECT FROM headrace.claim c WHERE c.fence::text = t.owner AND c.live) LIMIT 100) old;
END $$;

-- A bounded piece of retention: chunks past their job's keep_s, everything of jobs past thirty days; how many rows.
CREATE FUNCTION headrace.retain() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    old headrace.job;
    gone bigint[];
    removed bigint := 0;
    named text;
    part bigint;
BEGIN
    FOR old IN SELECT * FROM headrace.job j WHERE j.prune_at IS NOT NULL AND j.prune_at <= clock_timestamp()
                ORDER BY j.prune_at LIMIT 100 FOR UPDATE SKIP LOCKED LOOP
        -- From the first chunk that goes, only the tallies tell.
        UPDATE headrace.job j SET pruned = j.generation WHERE j.id = old.id AND j.pruned < j.generation;
        gone := ARRAY(SELECT s.id FROM headrace.chunk_state s WHERE s.job = old.id LIMIT 1000 - removed);
        DELETE FROM headrace.chunk_state s WHERE s.id = ANY (gone);
        DELETE FROM headrace.chunk c WHERE c.id = ANY (gone);
        removed := removed + cardinality(gone);
        EXIT WHEN removed >= 1000;
        -- Only an item that may be redriven has a use for where it was.
        DELETE FROM headrace.cursor n WHERE n.job = old.id AND NOT EXISTS (
            SELECT FROM headrace.dead d WHERE d.job = n.job AND d.generation = n.generation
               AND d.position = n.position AND d.seq = n.seq AND d.redriven_in IS NULL);
        GET DIAGNOSTICS part = ROW_COUNT;
        removed := removed + part;
        UPDATE headrace.job j SET prune_at = NULL WHERE j.id = old.id;
    END LOOP;
    FOR old IN SELECT * FROM headrace.job j
                WHERE j.ended_at < clock_timestamp() - interval '30 days' AND j.prune_at IS NULL
                ORDER BY j.ended_at LIMIT 100 FOR UPDATE SKIP LOCKED LOOP
        -- Unique keys and what was cancelled stay as long as the job: it may be redriven without its chunks.
        FOREACH named IN ARRAY
            ARRAY['stage', 'dead', 'finish', 'event', 'external_event', 'cursor', 'item_cancel', 'unique_key'] LOOP
            EXECUTE format('DELETE FROM headrace.%I WHERE job = $1', named) USING old.id;
            GET DIAGNOSTICS part = ROW_COUNT;
            removed := removed + part;
        END LOOP;
        DELETE FROM headrace.job j WHERE j.id = old.id;
        removed := removed + 1;
    END LOOP;
    RETURN removed;
END $$;
