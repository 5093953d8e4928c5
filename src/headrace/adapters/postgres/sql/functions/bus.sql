-- The bus. A message is written once, with a delivery row for each subscription that wants it. Consumers lock only the
-- deliveries they take and skip those that others are taking, so nobody waits for anybody.

-- Forget those of some messages that are in no subscription any more.
CREATE FUNCTION headrace.drop_messages(ids bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    removed bigint;
BEGIN
    -- A publisher that adds a subscription's copy holds the message by a shared lock: after this one we see its copy.
    PERFORM FROM headrace.message m WHERE m.id = ANY (ids) ORDER BY m.id FOR UPDATE;
    DELETE FROM headrace.message m
     WHERE m.id = ANY (ids) AND NOT EXISTS (SELECT FROM headrace.delivery d WHERE d.message = m.id);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;

-- Forget a subscription and what waits in it.
CREATE FUNCTION headrace.unsubscribe(wanted text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    known boolean;
    touched bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(wanted, 5216377));
    DELETE FROM headrace.subscription s WHERE s.name = wanted;
    known := FOUND;
    WITH gone AS (DELETE FROM headrace.delivery d WHERE d.subscription = wanted RETURNING d.message)
    SELECT coalesce(array_agg(gone.message), '{}') INTO touched FROM gone;
    PERFORM headrace.drop_messages(touched);
    RETURN known;
END $$;

-- Open a subscription, or replace its patterns.
CREATE FUNCTION headrace.subscribe(wanted text, wishes text[], matching text[], most integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    -- Consumers that start at once open one subscription, and the later ones find it.
    PERFORM pg_advisory_xact_lock(hashtextextended(wanted, 5216377));
    UPDATE headrace.subscription s SET patterns = wishes, expressions = matching, deliveries_max = most
     WHERE s.name = wanted;
    IF FOUND THEN
        RETURN;
    END IF;
    -- A publish that was under way while an earlier subscription of this name ended may have left something in it.
    PERFORM headrace.unsubscribe(wanted);
    INSERT INTO headrace.subscription (name, patterns, expressions, deliveries_max)
    VALUES (wanted, wishes, matching, most);
END $$;

-- Hand events to everybody who subscribes to their topic, in their order; which of them anybody wants.
CREATE FUNCTION headrace.publish(ids text[], topics text[], keys text[], heads text[], moments double precision[],
                                 bodies bytea[], OUT routed boolean[], OUT rang boolean) LANGUAGE plpgsql AS $$
DECLARE
    names text[];
    message_id bigint;
BEGIN
    routed := '{}';
    rang := false;
    FOR n IN 1 .. cardinality(ids) LOOP
        names := ARRAY(SELECT s.name FROM headrace.subscription s
                        WHERE EXISTS (SELECT FROM unnest(s.expressions) x(x) WHERE '.' || topics[n] ~ x.x) ORDER BY s.name);
        routed := routed || (cardinality(names) > 0);
        CONTINUE WHEN cardinality(names) = 0;
        INSERT INTO headrace.message (event_id, topic, key, headers, happened_at, body)
        VALUES (ids[n], topics[n], keys[n], heads[n],
                CASE WHEN moments[n] > 0 THEN moments[n] ELSE extract(epoch FROM clock_timestamp()) END, bodies[n])
            ON CONFLICT (event_id) DO NOTHING;
        SELECT m.id INTO message_id FROM headrace.message m WHERE m.event_id = ids[n] FOR KEY SHARE;
        IF message_id IS NULL THEN
            -- It was forgotten between the two statements: the whole call again writes it anew.
            RAISE EXCEPTION 'the message % is being forgotten', ids[n] USING ERRCODE = 'serialization_failure';
        END IF;
        INSERT INTO headrace.delivery (subscription, message) SELECT wish.name, message_id FROM unnest(names) wish(name)
            ON CONFLICT DO NOTHING;
        rang := rang OR FOUND;
    END LOOP;
END $$;

-- Take messages of a subscription. The last row has no message and says when something may come back. No row at all:
-- there is no such subscription.
CREATE FUNCTION headrace.receive(wanted text, taker text, room integer, hold_s double precision, lost_reason text)
RETURNS TABLE (message bigint, fence bigint, event_id text, topic text, body bytea, key text, headers text,
               happened_at double precision, deliveries integer, failures integer, suspect boolean, wait_s double precision)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    most integer;
    chosen bigint[] := '{}';
    alone boolean;
    given bigint;
    next_at timestamptz;
BEGIN
    SELECT s.deliveries_max INTO most FROM headrace.subscription s WHERE s.name = wanted;
    IF most IS NULL THEN
        RETURN;
    END IF;
    UPDATE headrace.delivery d SET state = 0 WHERE d.subscription = wanted AND d.message = ANY (ARRAY(
        SELECT w.message FROM headrace.delivery w WHERE w.subscription = wanted AND w.state = 1 AND w.due_at <= moment
         ORDER BY w.due_at LIMIT 1000 FOR UPDATE SKIP LOCKED));
    -- Holds that have passed. Who was alone is charged, and dies of the last allowed failure; anybody else is suspect.
    UPDATE headrace.delivery d SET
           failures = d.failures + d.suspect::integer,
           suspect = true,
           state = CASE WHEN d.failures + d.suspect::integer >= most THEN 4 ELSE 0 END,
           reason = CASE WHEN d.failures + d.suspect::integer >= most THEN lost_reason ELSE d.reason END,
           ended_at = CASE WHEN d.failures + d.suspect::integer >= most THEN moment END
     WHERE d.subscription = wanted AND d.message = ANY (ARRAY(
        SELECT w.message FROM headrace.delivery w WHERE w.subscription = wanted AND w.state = 2 AND w.until < moment
         ORDER BY w.until LIMIT 1000 FOR UPDATE SKIP LOCKED));
    IF room > 0 THEN
        SELECT d.suspect INTO alone FROM headrace.delivery d WHERE d.subscription = wanted AND d.state = 0
         ORDER BY d.message LIMIT 1 FOR UPDATE SKIP LOCKED;
        chosen := ARRAY(SELECT d.message FROM headrace.delivery d
                         WHERE d.subscription = wanted AND d.state = 0 AND d.suspect = alone
                         ORDER BY d.message LIMIT CASE WHEN alone THEN 1 ELSE room END FOR UPDATE SKIP LOCKED);
    END IF;
    IF cardinality(chosen) > 0 THEN
        given := headrace.mint();
        RETURN QUERY
            WITH taken AS (
                UPDATE headrace.delivery d SET state = 2, consumer = taker, fence = given, deliveries = d.deliveries + 1,
                       until = clock_timestamp() + headrace.seconds(hold_s)
                 WHERE d.subscription = wanted AND d.message = ANY (chosen)
                RETURNING d.message, d.deliveries, d.failures, d.suspect)
            SELECT m.id, given, m.event_id, m.topic, m.body, m.key, m.headers, m.happened_at,
                   t.deliveries, t.failures, t.suspect, NULL::double precision
              FROM taken t JOIN headrace.message m ON m.id = t.message ORDER BY m.id;
    END IF;
    next_at := least(
        (SELECT min(d.due_at) FROM headrace.delivery d WHERE d.subscription = wanted AND d.state = 1),
        (SELECT min(d.until) FROM headrace.delivery d WHERE d.subscription = wanted AND d.state = 2));
    message := NULL;
    fence := NULL;
    wait_s := CASE WHEN next_at IS NOT NULL THEN greatest(0, extract(epoch FROM next_at - clock_timestamp())) END;
    RETURN NEXT;
END $$;

-- Dealt with, if nobody else has got them since; the places of those in the lists.
CREATE FUNCTION headrace.ack(names text[], messages bigint[], fences bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    accepted bigint[];
BEGIN
    WITH acked AS (
        UPDATE headrace.delivery d SET state = 3, ended_at = coalesce(d.ended_at, clock_timestamp())
          FROM unnest(names, messages, fences) WITH ORDINALITY g(name, message, fence, n)
         WHERE d.subscription = g.name AND d.message = g.message AND d.fence = g.fence AND d.state IN (0, 2, 3)
        RETURNING g.n)
    SELECT coalesce(array_agg(acked.n), '{}') INTO accepted FROM acked;
    RETURN accepted;
END $$;

-- Those of the lists whose fence is still the last one: what was asked for has been done, now or before.
CREATE FUNCTION headrace.deliveries_had(names text[], messages bigint[], fences bigint[]) RETURNS bigint[] LANGUAGE sql
BEGIN ATOMIC
    SELECT coalesce(array_agg(g.n), '{}') FROM unnest(names, messages, fences) WITH ORDINALITY g(name, message, fence, n)
      JOIN headrace.delivery d ON d.subscription = g.name AND d.message = g.message AND d.fence = g.fence;
END;

-- Back to waiting, now or later. With a reason that is a failure, and one too many makes a dead letter.
CREATE FUNCTION headrace.requeue(names text[], messages bigint[], fences bigint[], delay_s double precision, why text)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    failed boolean := why <> '';
BEGIN
    UPDATE headrace.delivery d SET
           failures = d.failures + failed::integer,
           suspect = d.suspect AND NOT failed,
           state = CASE WHEN failed AND d.failures + 1 >= s.deliveries_max THEN 4 WHEN delay_s > 0 THEN 1 ELSE 0 END,
           due_at = CASE WHEN delay_s > 0 THEN moment + headrace.seconds(delay_s) END,
           reason = CASE WHEN failed THEN why ELSE d.reason END,
           ended_at = CASE WHEN failed AND d.failures + 1 >= s.deliveries_max THEN moment END
      FROM unnest(names, messages, fences) g(name, message, fence) JOIN headrace.subscription s ON s.name = g.name
     WHERE d.subscription = g.name AND d.message = g.message AND d.fence = g.fence AND d.state = 2;
    RETURN headrace.deliveries_had(names, messages, fences);
END $$;

-- Put aside with a reason.
CREATE FUNCTION headrace.dead_letter(names text[], messages bigint[], fences bigint[], why text)
RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
    UPDATE headrace.delivery d SET state = 4, reason = why, ended_at = clock_timestamp()
      FROM unnest(names, messages, fences) g(name, message, fence)
     WHERE d.subscription = g.name AND d.message = g.message AND d.fence = g.fence AND d.state IN (0, 2);
    RETURN headrace.deliveries_had(names, messages, fences);
END $$;

-- Hold on. An expired hold is not revived.
CREATE FUNCTION headrace.renew_deliveries(names text[], messages bigint[], fences bigint[], hold_s double precision)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    kept bigint[];
BEGIN
    WITH held AS (
        UPDATE headrace.delivery d SET until = moment + headrace.seconds(hold_s)
          FROM unnest(names, messages, fences) WITH ORDINALITY g(name, message, fence, n)
         WHERE d.subscription = g.name AND d.message = g.message AND d.fence = g.fence AND d.state = 2
           AND d.until >= moment
        RETURNING g.n)
    SELECT coalesce(array_agg(held.n), '{}') INTO kept FROM held;
    RETURN kept;
END $$;

-- Forget what was dealt with long ago, and messages that are in no subscription any more.
CREATE FUNCTION headrace.retain_messages(kept_s double precision) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    touched bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM headrace.delivery WHERE (subscription, message) IN (
            SELECT d.subscription, d.message FROM headrace.delivery d
             WHERE d.state = 3 AND d.ended_at < clock_timestamp() - headrace.seconds(kept_s)
             LIMIT 500 FOR UPDATE SKIP LOCKED)
        RETURNING message)
    SELECT coalesce(array_agg(gone.message), '{}') INTO touched FROM gone;
    RETURN headrace.drop_messages(touched) + cardinality(touched);
END $$;
