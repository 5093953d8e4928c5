-- unit_begin
-- One unit of work.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE

-- unit_insert
-- The mark of a unit. One that was applied before is found by its violation, which skips everything behind it.
INSERT INTO headrace.inbox (subscription, event_id) VALUES (%b, %b)

-- unit_guard
-- A process that freezes before it commits loses the transaction after two seconds, and with it every lock in it.
SELECT set_config('idle_in_transaction_session_timeout', '2000', true)

-- unit_close
-- The event an external stage waits for, by the stage's name. No row: there is no such stage that waits for events.
SELECT c.first, c.rang FROM headrace.stage s, headrace.close_external(s.job, s.position, %b) c
 WHERE s.job = %b AND s.generation = 1 AND s.name = %b AND s.kind = 2

-- table_migrations
-- The numbers that were applied.
SELECT number FROM headrace.table_migration WHERE owner = %b

-- table_lock
-- Those who migrate the same tables do it one after another.
SELECT pg_advisory_xact_lock(hashtextextended(%b, 5216373))

-- table_migrated
-- One more was.
INSERT INTO headrace.table_migration (owner, number, name) VALUES (%b, %b::bigint::integer, %b)

-- relation_exists
-- Whether somebody made it.
SELECT to_regclass(%b) IS NOT NULL
