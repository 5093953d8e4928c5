-- add_events
-- Commit events of one's own.
SELECT headrace.add_events(%b::text[], %b::text[], %b::text[], %b::bytea[], %b::text[])

-- claim_events
-- Hold unpublished events.
SELECT * FROM headrace.claim_events(%b::bigint::integer, %b::bigint::integer, %b::double precision, %b::text[])

-- publish_events
-- The bus has them.
SELECT headrace.publish_events(%b::bigint, %b::text[])

-- release_events
-- The bus does not have them.
SELECT headrace.release_events(%b::bigint, %b::text[], %b::double precision)

-- forget_events
-- What was not published of a key, unless it is a job's own.
WITH gone AS (
    DELETE FROM headrace.event WHERE coalesce(key, job) = %b AND published_at IS NULL AND job = '' RETURNING 1
)
SELECT count(*) FROM gone

-- outbox_lag
-- How many events wait to be told, and since when.
SELECT count(*), coalesce(greatest(0, extract(epoch FROM clock_timestamp() - min(happened_at))), 0)::double precision
  FROM headrace.event WHERE published_at IS NULL AND (%b::text[] = '{}' OR topic = ANY (%b::text[]))

-- retain_told
-- A bounded piece of retention.
SELECT headrace.retain_told(%b::double precision, %b::double precision, %b::double precision)

-- inbox_insert
-- The first of its kind inserts; a repeat inserts nothing. A process that freezes inside the transaction that began here
-- loses it after two seconds, and with it every lock that others wait for.
INSERT INTO headrace.inbox (subscription, event_id) VALUES (%b, %b) ON CONFLICT DO NOTHING
RETURNING set_config('idle_in_transaction_session_timeout', '2000', true)
