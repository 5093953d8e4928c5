-- The ledger and the leases. Items are inserted before the account is locked, and the account is locked last, so that
-- services that settle the same account at once wait for each other as shortly as can be.

-- Cross the finish line if this is the moment, and say so in the outbox. The account's row is locked by the caller.
CREATE FUNCTION headrace.finish_account(owner text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    crossed headrace.ledger_account;
BEGIN
    UPDATE headrace.ledger_account a SET finished_at = clock_timestamp()
     WHERE a.name = owner AND a.sealed AND a.finished_at IS NULL AND a.done + a.errors = a.total
    RETURNING * INTO crossed;
    IF crossed.name IS NULL THEN
        RETURN false;
    END IF;
    PERFORM headrace.add_events(
        ARRAY[owner || '.finished'], ARRAY[crossed.topic], ARRAY[owner],
        ARRAY[convert_to(jsonb_build_object('account', owner, 'total', crossed.total, 'done', crossed.done,
                                            'errors', crossed.errors)::text, 'UTF8')], ARRAY[crossed.headers]);
    RETURN true;
END $$;

-- One source expects once; `before` is what it expected earlier.
CREATE FUNCTION headrace.ledger_expect(owner text, more bigint, who text, OUT reason text, OUT before bigint,
                                       OUT account headrace.ledger_account) LANGUAGE plpgsql AS $$
BEGIN
    SELECT * INTO account FROM headrace.ledger_account a WHERE a.name = owner FOR UPDATE;
    SELECT s.count INTO before FROM headrace.ledger_source s WHERE s.account = owner AND s.source = who;
    reason := CASE WHEN account.name IS NULL THEN 'absent' WHEN account.sealed AND before IS NULL THEN 'sealed' ELSE '' END;
    IF reason = '' AND before IS NULL THEN
        INSERT INTO headrace.ledger_source (account, source, count) VALUES (owner, who, more);
        UPDATE headrace.ledger_account a SET total = a.total + more WHERE a.name = owner RETURNING * INTO account;
    END IF;
END $$;

-- Fix the total; the seal itself crosses the line if everything has ended.
CREATE FUNCTION headrace.ledger_seal(owner text, fixed bigint, OUT reason text, OUT crossed boolean,
                                     OUT account headrace.ledger_account) LANGUAGE plpgsql AS $$
DECLARE
    wanted bigint;
BEGIN
    crossed := false;
    SELECT * INTO account FROM headrace.ledger_account a WHERE a.name = owner FOR UPDATE;
    wanted := coalesce(fixed, account.total);
    reason := CASE WHEN account.name IS NULL THEN 'absent'
                   WHEN account.sealed AND wanted <> account.total THEN 'sealed'
                   WHEN NOT account.sealed AND account.done + account.errors > wanted THEN 'short'
                   ELSE '' END;
    IF reason = '' AND NOT account.sealed THEN
        UPDATE headrace.ledger_account a SET sealed = true, total = wanted WHERE a.name = owner;
        crossed := headrace.finish_account(owner);
        SELECT * INTO account FROM headrace.ledger_account a WHERE a.name = owner;
    END IF;
END $$;

-- Items ended; each counts once. `fresh` and `surplus` are places in the list, which names each item once.
CREATE FUNCTION headrace.ledger_settle(owner text, items text[], oks boolean[], OUT reason text, OUT fresh bigint[],
                                       OUT surplus bigint[], OUT crossed boolean, OUT account headrace.ledger_account)
LANGUAGE plpgsql AS $$
DECLARE
    room bigint;
BEGIN
    surplus := '{}';
    crossed := false;
    SELECT * INTO account FROM headrace.ledger_account a WHERE a.name = owner;
    IF account.name IS NULL THEN
        reason := 'absent';
        RETURN;
    END IF;
    reason := '';
    -- In one order everywhere, so that two calls with the same items do not wait for each other in a circle.
    WITH inserted AS (
        INSERT INTO headrace.ledger_item (account, item, ok)
        SELECT owner, g.item, g.ok FROM unnest(items, oks) g(item, ok) ORDER BY g.item
            ON CONFLICT DO NOTHING
        RETURNING item)
    SELECT coalesce(array_agg(g.n ORDER BY g.n), '{}') INTO fresh
      FROM inserted i JOIN unnest(items) WITH ORDINALITY g(item, n) ON g.item = i.item;
    IF cardinality(fresh) = 0 THEN
        RETURN;
    END IF;
    SELECT * INTO account FROM headrace.ledger_account a WHERE a.name = owner FOR UPDATE;
    IF account.name IS NULL THEN
        RAISE EXCEPTION 'the account % is being forgotten', owner USING ERRCODE = 'serialization_failure';
    END IF;
    IF account.sealed THEN
        room := greatest(0, account.total - account.done - account.errors);
        surplus := fresh[room + 1:];
        fresh := fresh[:room];
        DELETE FROM headrace.ledger_item l
         WHERE l.account = owner AND l.item = ANY (ARRAY(SELECT items[n] FROM unnest(surplus) n));
    END IF;
    IF cardinality(fresh) > 0 THEN
        UPDATE headrace.ledger_account a SET
               done = a.done + (SELECT count(*) FROM unnest(fresh) n WHERE oks[n]),
               errors = a.errors + (SELECT count(*) FROM unnest(fresh) n WHERE NOT oks[n])
         WHERE a.name = owner;
        crossed := headrace.finish_account(owner);
        SELECT * INTO account FROM headrace.ledger_account a WHERE a.name = owner;
    END IF;
END $$;

-- A bounded piece of an account that nobody needs any more; the number of rows.
CREATE FUNCTION headrace.forget_account(owner text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    items bigint;
    sources bigint;
BEGIN
    DELETE FROM headrace.ledger_item WHERE account = owner AND item IN (
        SELECT l.item FROM headrace.ledger_item l WHERE l.account = owner LIMIT 5000);
    GET DIAGNOSTICS items = ROW_COUNT;
    DELETE FROM headrace.ledger_source WHERE account = owner AND source IN (
        SELECT s.source FROM headrace.ledger_source s WHERE s.account = owner LIMIT 5000);
    GET DIAGNOSTICS sources = ROW_COUNT;
    IF items = 5000 OR sources = 5000 THEN
        RETURN items + sources;
    END IF;
    DELETE FROM headrace.ledger_account a WHERE a.name = owner;
    RETURN items + sources + 1;
END $$;

-- A lease as people see it.
CREATE FUNCTION headrace.lease_left(held headrace.lease) RETURNS double precision LANGUAGE sql VOLATILE
RETURN CASE WHEN held.holder = '' THEN 0
            ELSE greatest(0, extract(epoch FROM held.until - clock_timestamp()))::double precision END;

-- One compare-and-set: nobody took it since it was looked at, and it is released or its hold has passed. No row: it was
-- never acquired.
CREATE FUNCTION headrace.takeover(wanted text, taker text, seen bigint, hold_s double precision)
RETURNS TABLE (granted boolean, holder text, fence bigint, epoch bigint, left_s double precision) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held headrace.lease;
BEGIN
    SELECT * INTO held FROM headrace.lease l WHERE l.name = wanted FOR UPDATE;
    IF held.name IS NULL THEN
        RETURN;
    END IF;
    granted := held.epoch = seen + 1 AND held.holder = taker AND held.until >= clock_timestamp();
    IF held.epoch = seen AND (held.holder = '' OR held.until < clock_timestamp()) THEN
        UPDATE headrace.lease l SET holder = taker, fence = greatest(headrace.mint(), l.fence + 1), epoch = l.epoch + 1,
               until = clock_timestamp() + headrace.seconds(hold_s)
         WHERE l.name = wanted RETURNING * INTO held;
        granted := true;
    END IF;
    RETURN QUERY SELECT granted, held.holder, held.fence, held.epoch, headrace.lease_left(held);
END $$;

-- Take a resource that nobody holds; its live holder gets the same lease again.
CREATE FUNCTION headrace.acquire(wanted text, taker text, hold_s double precision)
RETURNS TABLE (granted boolean, holder text, fence bigint, epoch bigint, left_s double precision) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held headrace.lease;
BEGIN
    SELECT * INTO held FROM headrace.lease l WHERE l.name = wanted FOR UPDATE;
    IF held.name IS NULL THEN
        INSERT INTO headrace.lease (name, holder, fence, epoch, until)
        VALUES (wanted, taker, headrace.mint(), 0, clock_timestamp() + headrace.seconds(hold_s))
            ON CONFLICT (name) DO NOTHING;
        SELECT * INTO held FROM headrace.lease l WHERE l.name = wanted FOR UPDATE;
    END IF;
    IF held.holder = '' THEN
        RETURN QUERY SELECT * FROM headrace.takeover(wanted, taker, held.epoch, hold_s);
        RETURN;
    END IF;
    granted := held.holder = taker AND held.until >= clock_timestamp();
    RETURN QUERY SELECT granted, held.holder, held.fence, held.epoch, headrace.lease_left(held);
END $$;
