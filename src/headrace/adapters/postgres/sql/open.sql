-- open_begin
-- What an earlier handler left in the session goes first. The mark lasts exactly as long as this transaction: whoever
-- ends it loses the mark. A snapshot is taken before the handler comes, so it cannot change the isolation level. The
-- locks are in nobody's way: they tell under which fences this transaction is open.
RESET SESSION AUTHORIZATION; RESET ALL; DISCARD TEMP; UNLISTEN *; CLOSE ALL; BEGIN;
SET LOCAL headrace.mark = '{mark}'; SET LOCAL idle_in_transaction_session_timeout = '{alone_ms}';
SET LOCAL statement_timeout = '{alone_ms}'; SELECT pg_advisory_unlock_all();
SELECT pg_advisory_xact_lock_shared(-fence) FROM unnest('{{{fences}}}'::bigint[]) fence

-- open_check
-- Whether this is the transaction that was begun. From here on the claim is about to be locked: who freezes loses all.
SELECT current_setting('headrace.mark', true);
SET LOCAL idle_in_transaction_session_timeout = '2s'; SET LOCAL statement_timeout = '60s'; SAVEPOINT settling

-- open_revoke
-- Transactions of lost claims end with their sessions, and give back their locks.
SELECT pg_terminate_backend(l.pid) FROM pg_locks l
 WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.pid <> pg_backend_pid()
   AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
   AND (l.classid::bigint << 32 | l.objid::bigint) IN (SELECT -fence FROM unnest(%b::bigint[]) fence)
