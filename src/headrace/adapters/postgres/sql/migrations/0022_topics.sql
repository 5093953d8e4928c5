-- A relay may take some topics only: events of others neither hold up its own nor cost it time.
CREATE INDEX event_topic ON headrace.event (topic) WHERE published_at IS NULL;

DROP FUNCTION headrace.claim_events(integer, integer, double precision);

-- Hold unpublished events for a relay, oldest first; those of `wanted` topics, or all. The window is of events that can be
-- claimed, so that neither events of other topics nor any number that were put off fill it.
CREATE FUNCTION headrace.claim_events(room integer, look integer, hold_s double precision, wanted text[])
RETURNS TABLE (fence bigint, event_id text, topic text, key text, body bytea, headers text, happened_at double precision)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    chosen bigint[];
    given bigint;
BEGIN
    IF wanted <> '{}' AND NOT EXISTS (
        SELECT FROM headrace.event e WHERE e.published_at IS NULL AND e.topic = ANY (wanted)) THEN
        RETURN;
    END IF;
    chosen := ARRAY(
        SELECT e.id FROM headrace.event e
         WHERE e.published_at IS NULL AND (e.claim IS NULL OR e.claim_until < moment)
           AND (wanted = '{}' OR e.topic = ANY (wanted))
           AND e.id <= (SELECT max(w.id) FROM (
                SELECT f.id FROM headrace.event f
                 WHERE f.published_at IS NULL AND (f.claim IS NULL OR f.claim_until < moment)
                   AND (wanted = '{}' OR f.topic = ANY (wanted))
                 ORDER BY f.id LIMIT look) w)
           AND NOT EXISTS (
                SELECT FROM headrace.event b
                 WHERE coalesce(b.key, b.job) = coalesce(e.key, e.job) AND b.id < e.id AND b.published_at IS NULL
                   AND b.claim IS NOT NULL AND b.claim_until >= moment
                   AND (wanted = '{}' OR b.topic = ANY (wanted)))
         ORDER BY e.id LIMIT room FOR UPDATE SKIP LOCKED);
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
