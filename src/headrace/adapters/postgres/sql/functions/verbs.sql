-- Every verb is a short walk along an index. It is planned once, for any values, and never as a scan: the tables are near
-- empty when a server first plans them, and statistics lag behind a queue that fills and drains in seconds.
DO $$
DECLARE
    verb text;
BEGIN
    FOREACH verb IN ARRAY ARRAY[
        'submit', 'send', 'claim', 'settle', 'renew', 'sweep', 'expire_externals', 'forget', 'cancel', 'set_paused',
        'cancel_item', 'close_external', 'redrive', 'retain',
        'add_events', 'claim_events', 'publish_events', 'release_events', 'retain_told', 'publish', 'receive', 'ack',
        'requeue', 'dead_letter', 'renew_deliveries', 'retain_messages', 'ledger_expect', 'ledger_seal', 'ledger_settle',
        'takeover', 'acquire'] LOOP
        EXECUTE format('ALTER FUNCTION headrace.%I SET enable_seqscan = off', verb);
        EXECUTE format('ALTER FUNCTION headrace.%I SET enable_bitmapscan = off', verb);
        EXECUTE format('ALTER FUNCTION headrace.%I SET plan_cache_mode = force_generic_plan', verb);
        EXECUTE format('ALTER FUNCTION headrace.%I SET jit = off', verb);
    END LOOP;
END $$;
-- It joins two lists of which neither has statistics: row by row, that would be every pair.
ALTER FUNCTION headrace.claim_events SET enable_nestloop = off;
