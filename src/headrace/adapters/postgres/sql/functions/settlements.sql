-- Settlements: outcomes of a claim applied to the account, and what a lost claim leaves behind.
--
-- Counting takes three steps so that nothing is hot: a settlement counts in its claim, the end of the claim folds into
-- its chunk, the end of the chunk folds into the stage. A settlement locks its chunk's state even if it does not end
-- the claim: whoever closes a gate (cancel, pause) takes the same lock, so what a settlement sends stands behind the
-- right gate.
--
-- What belongs to no dialect is decided by the caller and arrives as values, here and in the other verbs: the marks of a
-- dead letter, how often the lowest priority comes first, how long a slice of suspects is, in how many chunks a share is
-- counted.

-- The items of a claim that have no outcome yet.
CREATE FUNCTION headrace.unsettled(claim headrace.claim) RETURNS bit varying LANGUAGE sql IMMUTABLE
RETURN ~(claim.low | claim.high);

-- End items of a claim that are open in it: done, dead, cancelled or moved.
CREATE FUNCTION headrace.mark(INOUT claim headrace.claim, how text, items bit varying) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    number integer := bit_count(items)::integer;
BEGIN
    CASE how
        WHEN 'done' THEN claim.low := claim.low | items; claim.done := claim.done + number;
        WHEN 'dead' THEN claim.high := claim.high | items; claim.dead := claim.dead + number;
        WHEN 'cancelled' THEN claim.high := claim.high | items; claim.cancelled := claim.cancelled + number;
        WHEN 'moved' THEN
            claim.low := claim.low | items;
            claim.high := claim.high | items;
            claim.moved := claim.moved + number;
    END CASE;
END $$;

-- Dead letters for items that end dead; those that ended before are left out. A letter remembers the lost claims that
-- had the item: whoever redrives it must tell the sinks.
CREATE FUNCTION headrace.end_dead(INOUT claim headrace.claim, state headrace.chunk_state, losses jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    dying integer[];
    moment timestamptz := clock_timestamp();
BEGIN
    SELECT array_agg(DISTINCT (l ->> 'index')::integer) INTO dying FROM jsonb_array_elements(losses) l
     WHERE (l ->> 'index')::integer < claim.hi - claim.lo
       AND get_bit(headrace.unsettled(claim), (l ->> 'index')::integer) = 1;
    IF dying IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO headrace.dead (job, generation, position, seq, tenant, flow, stage, key, reason, rule, error,
        fingerprint, attempts, died_at, depth, revokes, payload, traceback)
    SELECT state.job, state.generation, state.position, i.seq, state.tenant, j.flow, s.name, i.key, l ->> 'reason',
           l ->> 'rule', l ->> 'error', l ->> 'fingerprint', (l ->> 'attempts')::integer, moment,
           state.depth, state.revokes, i.payload, l ->> 'traceback'
      FROM (SELECT DISTINCT ON ((e ->> 'index')::integer) e AS l FROM jsonb_array_elements(losses) e
             WHERE (e ->> 'index')::integer = ANY (dying)) chosen
      JOIN headrace.items_of(claim.chunk, ARRAY(SELECT at + claim.lo FROM unnest(dying) at)) i
        ON i.item = (l ->> 'index')::integer + claim.lo
      JOIN headrace.job j ON j.id = state.job
      JOIN headrace.stage s ON s.job = state.job AND s.generation = state.generation AND s.position = state.position;
    claim := headrace.mark(claim, 'dead', headrace.plane(dying, claim.hi - claim.lo));
END $$;

-- Items that would wait again end cancelled instead if their job or they themselves were cancelled; `kept` are the
-- others.
CREATE FUNCTION headrace.end_cancelled(INOUT claim headrace.claim, state headrace.chunk_state, INOUT kept integer[])
LANGUAGE plpgsql AS $$
DECLARE
    marked integer[];
BEGIN
    IF state.gate = 2 THEN
        marked := kept;
    ELSIF EXISTS (SELECT FROM headrace.item_cancel n WHERE n.job = state.job) THEN
        SELECT coalesce(array_agg(i.item - claim.lo), '{}') INTO marked
          FROM headrace.seqs_of(claim.chunk, ARRAY(SELECT at + claim.lo FROM unnest(kept) at)) i
          JOIN headrace.item_cancel n ON n.job = state.job AND n.generation = state.generation
           AND n.position = state.position AND n.seq = i.seq;
    ELSE
        RETURN;
    END IF;
    claim := headrace.mark(claim, 'cancelled', headrace.plane(marked, claim.hi - claim.lo));
    kept := ARRAY(SELECT at FROM unnest(kept) at WHERE at <> ALL (marked) ORDER BY at);
END $$;

-- Items go to a chunk of their own under the conditions of `place`.
CREATE FUNCTION headrace.move(INOUT claim headrace.claim, place headrace.chunk_state, items integer[])
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM headrace.carry_on(place, ARRAY(SELECT at + claim.lo FROM unnest(items) at ORDER BY at));
    claim := headrace.mark(claim, 'moved', headrace.plane(items, claim.hi - claim.lo));
END $$;

-- Items that wait again, grouped by the caller: [[delay_s, attempt, [indexes]], …].
CREATE FUNCTION headrace.move_again(INOUT claim headrace.claim, state headrace.chunk_state, groups jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    entry jsonb;
    items integer[];
    parted record;
    place headrace.chunk_state;
    moment timestamptz := clock_timestamp();
BEGIN
    FOR entry IN SELECT * FROM jsonb_array_elements(groups) LOOP
        SELECT coalesce(array_agg(DISTINCT at::integer), '{}') INTO items FROM jsonb_array_elements_text(entry -> 2) at
         WHERE at::integer < claim.hi - claim.lo AND get_bit(headrace.unsettled(claim), at::integer) = 1;
        parted := headrace.end_cancelled(claim, state, items);
        claim := parted.claim;
        items := parted.kept;
        IF cardinality(items) > 0 THEN
            place := state;
            place.suspect := false;
            place.revokes := NULL;
            place.attempt := (entry ->> 1)::integer;
            place.due_at := CASE WHEN (entry ->> 0)::double precision > 0
                            THEN moment + headrace.seconds((entry ->> 0)::double precision) END;
            claim := headrace.move(claim, place, items);
        END IF;
    END LOOP;
END $$;

-- Why a stage among the targets cannot be sent to; NULL if all can. Only what a stage feeds is kept open by it, so a
-- send to any other could meet its close.
CREATE FUNCTION headrace.wrong_stage(state headrace.chunk_state, names text[]) RETURNS text LANGUAGE sql STABLE
RETURN (
    SELECT CASE WHEN t.position IS NULL THEN 'unknown:' ELSE 'sealed:' END || wanted.name
      FROM (SELECT DISTINCT n COLLATE "C" AS name FROM unnest(names) n) wanted
      JOIN headrace.stage me
        ON me.job = state.job AND me.generation = state.generation AND me.position = state.position
      LEFT JOIN headrace.stage t
        ON t.job = me.job AND t.generation = me.generation AND t.name = wanted.name AND t.position = ANY (me.feeds)
     WHERE t.position IS NULL OR (t.position <> me.position AND t.feeders_open = 0)
     ORDER BY wanted.name LIMIT 1);

-- What is wrong with what a settlement sends: a stage, or that something to be flipped is gone. NULL: nothing is.
CREATE FUNCTION headrace.wrong_target(state headrace.chunk_state, given bigint, detail jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    names text[] := ARRAY(SELECT e ->> 'stage' FROM jsonb_array_elements(detail -> 'sends') e);
    flips integer[] := ARRAY(SELECT DISTINCT n::integer FROM jsonb_array_elements_text(detail -> 'flips') n);
    staged text[];
BEGIN
    IF cardinality(flips) > 0 THEN
        staged := ARRAY(SELECT t.stage FROM headrace.staged t WHERE t.owner = given::text AND t.number = ANY (flips));
        IF cardinality(staged) < cardinality(flips) THEN
            RETURN 'lost';
        END IF;
        names := names || staged;
    END IF;
    RETURN headrace.wrong_stage(state, names);
END $$;

-- What a settlement sends; the ids of chunks that ended at once because their gate is cancelled.
CREATE FUNCTION headrace.insert_sent(state headrace.chunk_state, sends jsonb, payloads bytea[],
    ends bytea[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    parcel record;
    place headrace.chunk_state;
    entered record;
    ended bigint[] := '{}';
BEGIN
    FOR parcel IN
        SELECT e AS body, s.position, s.unique_keys, j.flow || '/' || s.name AS queue, (e ->> 'at')::integer AS at
          FROM jsonb_array_elements(sends) WITH ORDINALITY p(e, n)
          JOIN headrace.stage s ON s.job = state.job AND s.generation = state.generation AND s.name = e ->> 'stage'
          JOIN headrace.job j ON j.id = state.job
         ORDER BY n
    LOOP
        place := state;
        place.position := parcel.position;
        place.queue := parcel.queue;
        place.kind := 0;
        place.count := (parcel.body ->> 'count')::integer;
        place.depth := (parcel.body ->> 'depth')::integer;
        place.due_at := CASE WHEN (parcel.body ->> 'delay_s')::double precision > 0
                        THEN clock_timestamp() + headrace.seconds((parcel.body ->> 'delay_s')::double precision) END;
        entered := headrace.insert_parcel(place, payloads[parcel.at], ends[parcel.at], parcel.body -> 'keys',
                                          parcel.unique_keys);
        IF entered.ended THEN
            ended := ended || (entered.place).id;
        END IF;
    END LOOP;
    RETURN ended;
END $$;

-- Items from an index on that have no outcome wait again at once: in place if nobody was granted what follows them, else
-- in a chunk of their own.
CREATE FUNCTION headrace.give_back(INOUT claim headrace.claim, state headrace.chunk_state, first integer)
LANGUAGE plpgsql AS $$
DECLARE
    kept integer[];
    width integer;
    parted record;
    place headrace.chunk_state;
BEGIN
    kept := ARRAY(SELECT i FROM unnest(headrace.indexes(headrace.unsettled(claim))) i WHERE i >= first ORDER BY i);
    parted := headrace.end_cancelled(claim, state, kept);
    claim := parted.claim;
    kept := parted.kept;
    IF cardinality(kept) = 0 THEN
        RETURN;
    END IF;
    width := kept[1];
    IF cardinality(kept) = claim.hi - claim.lo - width AND state.next = claim.hi THEN
        claim.hi := claim.lo + width;
        claim.low := substring(claim.low FROM 1 FOR width);
        claim.high := substring(claim.high FROM 1 FOR width);
        PERFORM headrace.ring();
        RETURN;
    END IF;
    place := state;
    place.due_at := NULL;
    claim := headrace.move(claim, place, kept);
END $$;

-- The claim folds into its chunk, and is remembered for ten hold times. The answer is whether that ended the chunk.
CREATE FUNCTION headrace.end_claim(claim headrace.claim, granted_hi integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    still_open boolean;
BEGIN
    UPDATE headrace.claim c
       SET live = false, until = clock_timestamp() + headrace.seconds(claim.hold_s * 10), hi = claim.hi,
           step = claim.step,
           done = claim.done, dead = claim.dead, cancelled = claim.cancelled, moved = claim.moved,
           low = claim.low, high = claim.high
     WHERE c.fence = claim.fence;
    UPDATE headrace.chunk_state s
       SET done = s.done + claim.done, dead = s.dead + claim.dead, cancelled = s.cancelled + claim.cancelled,
           moved = s.moved + claim.moved, next = s.next - (granted_hi - claim.hi),
           low = CASE WHEN claim.hi - claim.lo = s.count THEN claim.low
                      ELSE overlay(coalesce(s.low, headrace.zeros(s.count)) PLACING claim.low FROM claim.lo + 1) END,
           high = CASE WHEN claim.hi - claim.lo = s.count THEN claim.high
                       ELSE overlay(coalesce(s.high, headrace.zeros(s.count)) PLACING claim.high FROM claim.lo + 1) END
     WHERE s.id = claim.chunk
    RETURNING s.open INTO still_open;
    IF EXISTS (SELECT FROM headrace.staged t WHERE t.owner = claim.fence::text) THEN
        PERFORM headrace.drop_staged(claim.fence::text);
    END IF;
    RETURN NOT still_open;
END $$;

-- Where a streaming item will resume.
CREATE FUNCTION headrace.put_cursor(claim headrace.claim, state headrace.chunk_state, item integer, value bytea)
RETURNS void LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO headrace.cursor (job, generation, position, seq, cursor)
    SELECT state.job, state.generation, state.position, i.seq, value
      FROM headrace.seqs_of(claim.chunk, ARRAY[item + claim.lo]) i
    ON CONFLICT (job, generation, position, seq) DO UPDATE SET cursor = excluded.cursor;
END;

-- Everything of a settlement but its done items; the ids of sent chunks that ended at once.
CREATE FUNCTION headrace.apply_details(INOUT claim headrace.claim, state headrace.chunk_state, detail jsonb,
    payloads bytea[],
                                       ends bytea[], OUT ended bigint[]) LANGUAGE plpgsql AS $$
DECLARE
    place headrace.chunk_state;
BEGIN
    ended := '{}';
    IF detail ? 'dead' THEN
        claim := headrace.end_dead(claim, state, detail -> 'dead');
    END IF;
    IF detail ? 'again' THEN
        claim := headrace.move_again(claim, state, detail -> 'again');
    END IF;
    IF detail ? 'cursor' THEN
        PERFORM headrace.put_cursor(claim, state, (detail -> 'cursor' ->> 0)::integer,
                                    payloads[(detail -> 'cursor' ->> 1)::integer]);
    END IF;
    IF detail ? 'sends' THEN
        ended := headrace.insert_sent(state, detail -> 'sends', payloads, ends);
    END IF;
    IF detail ? 'flips' THEN
        place := state;
        place.due_at := NULL;
        ended := ended || headrace.flip(claim.fence::text,
            ARRAY(SELECT n::integer FROM jsonb_array_elements_text(detail -> 'flips') n), place);
    END IF;
END $$;

-- Locks for a settlement: claims by fence, then the states of their chunks by id.
CREATE FUNCTION headrace.lock_claims(fences bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM headrace.claim c WHERE c.fence = ANY (fences) ORDER BY c.fence FOR UPDATE;
    PERFORM FROM headrace.chunk_state s
      WHERE s.id = ANY (ARRAY(SELECT c.chunk FROM headrace.claim c WHERE c.fence = ANY (fences) AND c.live))
      ORDER BY s.id FOR UPDATE;
END $$;

-- NULL: apply it. Empty: it was applied before. Else: the reason why not. The caller has locked the row before the
-- clock is read here: a claim that expires between the two would count twice.
CREATE FUNCTION headrace.refusal(claim headrace.claim, wanted_step integer) RETURNS text LANGUAGE sql VOLATILE
RETURN CASE WHEN claim.fence IS NULL THEN 'lost'
            WHEN claim.step = wanted_step AND wanted_step > 0 THEN ''
            WHEN NOT claim.live OR claim.until < clock_timestamp() THEN 'lost'
            WHEN claim.step + 1 <> wanted_step THEN 'out_of_step' END;

-- Settle many claims in one transaction. `dones` are bit strings, first item leftmost; `finals` whether the claim ends;
-- `details` everything else, absent in the ordinary case. One reason per settlement, empty if it was applied (now or
-- before).
CREATE FUNCTION headrace.settle(fences bigint[], steps integer[], dones text[], finals boolean[], details jsonb[],
                                payloads bytea[], ends bytea[],
                                OUT reasons text[], OUT rang boolean) LANGUAGE plpgsql AS $$
DECLARE
    held headrace.claim;
    state headrace.chunk_state;
    ended bigint[] := '{}';
    applied record;
    granted_hi integer;
    width integer;
    refused text;
BEGIN
    reasons := '{}';
    PERFORM headrace.hush();
    PERFORM headrace.lock_claims(fences);
    FOR n IN 1 .. cardinality(fences) LOOP
        SELECT * INTO held FROM headrace.claim c WHERE c.fence = fences[n];
        refused := headrace.refusal(held, steps[n]);
        IF refused IS NOT NULL THEN
            reasons := reasons || refused;
            CONTINUE;
        END IF;
        SELECT * INTO state FROM headrace.chunk_state s WHERE s.id = held.chunk;
        IF details[n] ?| '{sends,flips}' THEN
            refused := headrace.wrong_target(state, held.fence, details[n]);
            IF refused IS NOT NULL THEN
                reasons := reasons || refused;
                CONTINUE;
            END IF;
        END IF;
        granted_hi := held.hi;
        width := held.hi - held.lo;
        held.step := steps[n];
        held.low := coalesce(held.low, headrace.zeros(width));
        held.high := coalesce(held.high, headrace.zeros(width));
        held := headrace.mark(held, 'done', rpad(dones[n], width, '0')::bit varying & headrace.unsettled(held));
        IF details[n] IS NOT NULL THEN
            applied := headrace.apply_details(held, state, details[n], payloads, ends);
            held := applied.claim;
            ended := ended || applied.ended;
        END IF;
        IF finals[n] THEN
            IF held.done + held.dead + held.cancelled + held.moved < width THEN
                held := headrace.give_back(held, state, 0);
            END IF;
            IF headrace.end_claim(held, granted_hi) THEN
                ended := ended || held.chunk;
            END IF;
        ELSE
            IF details[n] ? 'back' THEN
                held := headrace.give_back(held, state, (details[n] ->> 'back')::integer);
                UPDATE headrace.chunk_state s SET next = s.next - (granted_hi - held.hi)
                 WHERE s.id = held.chunk AND held.hi < granted_hi;
            END IF;
            UPDATE headrace.claim c SET hi = held.hi, step = held.step, done = held.done, dead = held.dead,
                cancelled = held.cancelled,
                   moved = held.moved, low = held.low, high = held.high WHERE c.fence = held.fence;
        END IF;
        reasons := reasons || ''::text;
    END LOOP;
    PERFORM headrace.fold(ended);
    rang := headrace.rang();
END $$;
