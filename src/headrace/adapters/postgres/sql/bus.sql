-- bus_subscribe
-- A subscription, or its new patterns.
SELECT headrace.subscribe(%b, %b::text[], %b::text[], %b::bigint::integer)

-- bus_subscriptions
-- Everybody who may want a message.
SELECT name, patterns, deliveries_max FROM headrace.subscription ORDER BY name

-- bus_unsubscribe
-- Forget a subscription and what waits in it.
SELECT headrace.unsubscribe(%b)

-- bus_publish
-- Hand events to everybody who subscribes.
SELECT * FROM headrace.publish(%b::text[], %b::text[], %b::text[], %b::text[], %b::double precision[], %b::bytea[])

-- bus_receive
-- Take messages.
SELECT * FROM headrace.receive(%b, %b, %b::bigint::integer, %b::double precision, %b)

-- bus_ack
-- Dealt with.
SELECT headrace.ack(%b::text[], %b::bigint[], %b::bigint[])

-- bus_requeue
-- Back to waiting.
SELECT headrace.requeue(%b::text[], %b::bigint[], %b::bigint[], %b::double precision, %b)

-- bus_dead_letter
-- Put aside.
SELECT headrace.dead_letter(%b::text[], %b::bigint[], %b::bigint[], %b)

-- bus_renew
-- Hold on.
SELECT headrace.renew_deliveries(%b::text[], %b::bigint[], %b::bigint[], %b::double precision)

-- bus_backlog
-- What is before a subscription; no row if there is none.
SELECT (SELECT count(*) FROM headrace.delivery WHERE subscription = s.name AND state IN (0, 1)),
       (SELECT count(*) FROM headrace.delivery WHERE subscription = s.name AND state = 2),
       (SELECT count(*) FROM headrace.delivery WHERE subscription = s.name AND state = 4)
  FROM headrace.subscription s WHERE s.name = %b

-- bus_dead
-- Dead letters, oldest first.
SELECT m.event_id, m.topic, m.body, m.key, m.headers, m.happened_at, d.reason, d.deliveries,
       extract(epoch FROM d.ended_at)::double precision
  FROM headrace.delivery d JOIN headrace.message m ON m.id = d.message
 WHERE d.subscription = %b AND d.state = 4 ORDER BY d.message LIMIT %b

-- bus_redrive
-- Dead letters come again as if new; whoever had them before has no say any more.
WITH again AS (
    UPDATE headrace.delivery d SET state = 0, failures = 0, suspect = false, ended_at = NULL, fence = NULL
     WHERE d.subscription = %(name)b AND d.state = 4
       AND (%(all)b::boolean OR d.message IN (SELECT id FROM headrace.message WHERE event_id = ANY (%(ids)b::text[])))
    RETURNING 1)
SELECT count(*) FROM again

-- bus_purge
-- Dead letters are dealt with by forgetting them.
WITH gone AS (
    UPDATE headrace.delivery d SET state = 3, ended_at = clock_timestamp()
     WHERE d.subscription = %(name)b AND d.state = 4
       AND (%(all)b::boolean OR d.message IN (SELECT id FROM headrace.message WHERE event_id = ANY (%(ids)b::text[])))
    RETURNING 1)
SELECT count(*) FROM gone

-- bus_retain
-- A bounded piece of retention.
SELECT headrace.retain_messages(%b::double precision)
