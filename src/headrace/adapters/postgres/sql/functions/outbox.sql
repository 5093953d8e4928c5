-- The outbox. Sequence order is not commit order, so nobody reads on from the last id seen: unpublished events are
-- found by their state. Those who add events of one key do it one after another, so within a key the order of ids is
-- the order of commits, and the relay keeps it.

-- Commit events of one's own; which of them are new.
CREATE FUNCTION headrace.add_events(ids text[], topics text[], keys text[], payloads bytea[], heads text[])
RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    added boolean[] := '{}';
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(given.key, 5216376))
       FROM (SELECT DISTINCT k.key FROM unnest(keys) k(key) ORDER BY k.key) given;
    -- A job's own events are committed under its row.
    PERFORM FROM headrace.job j WHERE j.id = ANY (keys) ORDER BY j.id FOR SHARE;
    FOR n IN 1 .. cardinality(ids) LOOP
        INSERT INTO headrace.event (event_id, topic, job, generation, body, happened_at, key, payload, headers)
        VALUES (ids[n], topics[n], '', 0, 'null', clock_timestamp(), keys[n], payloads[n], heads[n])
            ON CONFLICT (event_id) DO NOTHING;
        added := added || FOUND;
    END LOOP;
    RETURN added;
END $$;

-- Hold unpublished events for a relay, oldest first; those of `wanted` topics, or all. The window is of events that can be
-- claimed, so that neither events of other topics nor any number that were put off fill it.
CREATE FUNCTION headrace.claim_events(room integer, look integer, hold_s double precision, wanted text[])
RETURNS TABLE (fence bigint, event_id text, topic text, key text, body bytea, headers text, happened_at double precision)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    last bigint;
    chosen bigint[];
    given bigint;
BEGIN
    IF wanted <> '{}' AND NOT EXISTS (
        SELECT FROM headrace.event e WHERE e.published_at IS NULL AND e.topic = ANY (wanted)) THEN
        RETURN;
    END IF;
    last := (SELECT max(w.id) FROM (
                SELECT f.id FROM headrace.event f
                 WHERE f.published_at IS NULL AND (f.claim IS NULL OR f.claim_until < moment)
                   AND (wanted = '{}' OR f.topic = ANY (wanted))
                 ORDER BY f.id LIMIT look) w);
    -- What is held is looked for once: asked for each event, a long line of one key would be read as often as it has
    -- events.
    chosen := ARRAY(
        WITH held AS MATERIALIZED (
            SELECT coalesce(b.key, b.job) AS line, min(b.id) AS id FROM headrace.event b
             WHERE b.published_at IS NULL AND b.id < last AND b.claim IS NOT NULL AND b.claim_until >= moment
               AND (wanted = '{}' OR b.topic = ANY (wanted))
             GROUP BY 1)
        SELECT e.id FROM headrace.event e LEFT JOIN held h ON h.line = coalesce(e.key, e.job)
         WHERE e.published_at IS NULL AND (e.claim IS NULL OR e.claim_until < moment) AND e.id <= last
           AND (wanted = '{}' OR e.topic = ANY (wanted)) AND (h.id IS NULL OR e.id <= h.id)
         ORDER BY e.id LIMIT room FOR UPDATE OF e SKIP LOCKED);
    -- A row that was skipped is in the hands of another relay: whatever stands behind it in its key waits.
    chosen := ARRAY(
        WITH mine AS MATERIALIZED (
            SELECT e.id, coalesce(e.key, e.job) AS line FROM headrace.event e WHERE e.id = ANY (chosen)
        ), lines AS MATERIALIZED (
            SELECT k.line, (SELECT b.id FROM headrace.event b
                             WHERE coalesce(b.key, b.job) = k.line AND b.published_at IS NULL AND b.id <> ALL (chosen)
                               AND (wanted = '{}' OR b.topic = ANY (wanted))
                             ORDER BY coalesce(b.key, b.job), b.id LIMIT 1) AS left_out
              FROM (SELECT DISTINCT m.line FROM mine m) k)
        SELECT m.id FROM mine m JOIN lines l ON l.line = m.line WHERE l.left_out IS NULL OR m.id < l.left_out);
    IF cardinality(chosen) = 0 THEN
        RETURN;
    END IF;
    given := headrace.mint();
    UPDATE headrace.event e SET claim = given, claim_until = moment + headrace.seconds(hold_s) WHERE e.id = ANY (chosen);
    RETURN QUERY
        SELECT given, e.event_id, e.topic, coalesce(e.key, e.job), coalesce(e.payload, convert_to(e.body::text, 'UTF8')),
               e.headers, extract(epoch FROM e.happened_at)::double precision
          FROM headrace.event e WHERE e.id = ANY (chosen) ORDER BY e.id;
END $$;

-- The bus has them. Only the holder may say so, and a repeat finds it said.
CREATE FUNCTION headrace.publish_events(under bigint, ids text[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    marked bigint;
BEGIN
    UPDATE headrace.event e SET published_at = coalesce(e.published_at, clock_timestamp())
     WHERE e.event_id = ANY (ids) AND e.claim = under;
    GET DIAGNOSTICS marked = ROW_COUNT;
    RETURN marked;
END $$;

-- The hold ends at a moment of the holder's choosing; until then it keeps later events of its key back.
CREATE FUNCTION headrace.release_events(under bigint, ids text[], delay_s double precision) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE headrace.event e
       SET claim_until = CASE WHEN delay_s > 0 THEN clock_timestamp() + headrace.seconds(delay_s) ELSE '-infinity' END
     WHERE e.event_id = ANY (ids) AND e.claim = under AND e.published_at IS NULL;
END $$;

-- A bounded piece of retention: published events that are not a job's own, messages that no bus will deliver again,
-- accounts that finished long ago and whose announcement is told and gone.
CREATE FUNCTION headrace.retain_told(events_s double precision, inbox_s double precision, accounts_s double precision)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    removed bigint := 0;
    part bigint;
    old text;
BEGIN
    DELETE FROM headrace.event WHERE id IN (
        SELECT e.id FROM headrace.event e
         WHERE e.published_at < moment - headrace.seconds(events_s) AND e.published_at IS NOT NULL AND e.job = ''
         LIMIT 500 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS part = ROW_COUNT;
    removed := removed + part;
    DELETE FROM headrace.inbox WHERE (subscription, event_id) IN (
        SELECT i.subscription, i.event_id FROM headrace.inbox i
         WHERE i.consumed_at < moment - headrace.seconds(inbox_s) LIMIT 500 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS part = ROW_COUNT;
    removed := removed + part;
    FOR old IN SELECT a.name FROM headrace.ledger_account a
                WHERE a.finished_at < moment - headrace.seconds(accounts_s) AND a.finished_at IS NOT NULL
                  AND NOT EXISTS (SELECT FROM headrace.event e WHERE e.event_id = a.name || '.finished')
                ORDER BY a.finished_at LIMIT 10 FOR UPDATE SKIP LOCKED LOOP
        removed := removed + headrace.forget_account(old);
    END LOOP;
    RETURN removed;
END $$;
