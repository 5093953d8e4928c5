-- bus_subscribe
-- A subscription, or its new patterns.
INSERT INTO headrace_subscription (name, patterns, deliveries_max) VALUES (:name, :patterns, :deliveries_max)
    ON CONFLICT (name) DO UPDATE SET patterns = excluded.patterns, deliveries_max = excluded.deliveries_max

-- bus_subscriptions
-- Everybody who may want a message.
SELECT name, patterns, deliveries_max FROM headrace_subscription ORDER BY name

-- bus_subscription
-- One subscription.
SELECT deliveries_max FROM headrace_subscription AS subscription WHERE name = :name

-- bus_unsubscribe
-- Forget a subscription.
DELETE FROM headrace_subscription AS subscription WHERE name = :name

-- bus_unsubscribe_deliveries
-- What waited in it goes with it.
DELETE FROM headrace_delivery WHERE subscription = :name RETURNING message

-- bus_message
-- A message, once per event id.
INSERT INTO headrace_message (event_id, topic, key, headers, happened_at, body)
VALUES (:event_id, :topic, :key, :headers, :happened_at, :body)
    ON CONFLICT (event_id) DO NOTHING

-- bus_route
-- A copy for each subscription that matches and has not had it.
INSERT OR IGNORE INTO headrace_delivery (subscription, message)
SELECT s.value, m.id FROM json_each(:names) s, headrace_message m WHERE m.event_id = :event_id
RETURNING 1

-- bus_due
-- Delayed messages whose time has come.
UPDATE headrace_delivery SET state = 0 WHERE subscription = :name AND state = 1 AND due_at <= :now

-- bus_lost
-- Holds that have passed. Who was alone is charged, and dies of the last allowed failure; anybody else is suspect.
UPDATE headrace_delivery SET
       failures = failures + suspect,
       suspect = 1,
       state = CASE WHEN failures + suspect >= :deliveries_max THEN 4 ELSE 0 END,
       reason = CASE WHEN failures + suspect >= :deliveries_max THEN :reason ELSE reason END,
       ended_at = CASE WHEN failures + suspect >= :deliveries_max THEN :wall END
 WHERE subscription = :name AND state = 2 AND (until < :now OR boot <> :boot)

-- bus_first
-- The oldest waiting message, and whether it has to be alone.
SELECT message, suspect FROM headrace_delivery WHERE subscription = :name AND state = 0 ORDER BY message LIMIT 1

-- bus_take
-- Waiting messages into the hands of one consumer; a suspect is taken alone.
UPDATE headrace_delivery SET state = 2, consumer = :consumer, fence = :fence, until = :until, boot = :boot,
       deliveries = deliveries + 1
 WHERE subscription = :name AND message IN (
    SELECT message FROM headrace_delivery WHERE subscription = :name AND state = 0 AND suspect = :suspect
     ORDER BY message LIMIT :room)
RETURNING message, deliveries, failures, suspect

-- bus_read
-- The messages of a receive, oldest first.
SELECT id, event_id, topic, body, key, headers, happened_at FROM headrace_message
 WHERE id IN (SELECT value FROM json_each(:messages)) ORDER BY id

-- bus_next_due
-- When the next delayed message comes.
SELECT min(due_at) FROM headrace_delivery WHERE subscription = :name AND state = 1

-- bus_next_until
-- When the next hold passes.
SELECT min(until) FROM headrace_delivery WHERE subscription = :name AND state = 2

-- bus_ack
-- Dealt with, if nobody else has got it since.
UPDATE headrace_delivery SET state = 3, ended_at = coalesce(ended_at, :now)
 WHERE subscription = :name AND message = :message AND fence = :fence AND state IN (0, 2, 3)
RETURNING 1

-- bus_requeue
-- Back to waiting, now or later; the failure that is one too many makes a dead letter.
UPDATE headrace_delivery SET
       failures = failures + :failed,
       suspect = suspect AND NOT :failed,
       state = CASE WHEN :failed AND failures + 1 >= :deliveries_max THEN 4 WHEN :due_at IS NULL THEN 0 ELSE 1 END,
       due_at = :due_at,
       reason = CASE WHEN :failed THEN :reason ELSE reason END,
       ended_at = CASE WHEN :failed AND failures + 1 >= :deliveries_max THEN :now END
 WHERE subscription = :name AND message = :message AND fence = :fence AND state = 2

-- bus_dead_letter
-- Put aside with its reason.
UPDATE headrace_delivery SET state = 4, reason = :reason, ended_at = :now
 WHERE subscription = :name AND message = :message AND fence = :fence AND state IN (0, 2)

-- bus_had
-- Whether this fence is the last one that a message was delivered under: then what is asked for has been done.
SELECT 1 FROM headrace_delivery WHERE subscription = :name AND message = :message AND fence = :fence

-- bus_renew
-- Hold on. An expired hold is not revived.
UPDATE headrace_delivery SET until = :until
 WHERE subscription = :name AND message = :message AND fence = :fence AND state = 2 AND until >= :now AND boot = :boot
RETURNING 1

-- bus_backlog
-- What is before a subscription, by state.
SELECT state, count(*) FROM headrace_delivery WHERE subscription = :name AND state <> 3 GROUP BY state

-- bus_dead
-- Dead letters, oldest first.
SELECT m.id, m.event_id, m.topic, m.body, m.key, m.headers, m.happened_at, d.reason, d.deliveries, d.ended_at
  FROM headrace_delivery d JOIN headrace_message m ON m.id = d.message
 WHERE d.subscription = :name AND d.state = 4 ORDER BY d.message LIMIT :limit

-- bus_redrive
-- Dead letters come again as if new; whoever had them before has no say any more.
UPDATE headrace_delivery SET state = 0, failures = 0, suspect = 0, ended_at = NULL, fence = NULL
 WHERE subscription = :name AND state = 4
   AND (:event_ids IS NULL OR message IN (
        SELECT m.id FROM headrace_message m JOIN json_each(:event_ids) e ON m.event_id = e.value))

-- bus_purge
-- Dead letters are dealt with by forgetting them.
UPDATE headrace_delivery SET state = 3, ended_at = :now
 WHERE subscription = :name AND state = 4
   AND (:event_ids IS NULL OR message IN (
        SELECT m.id FROM headrace_message m JOIN json_each(:event_ids) e ON m.event_id = e.value))

-- bus_forget_deliveries
-- What was dealt with long ago; a repeat of it would be delivered again.
DELETE FROM headrace_delivery WHERE (subscription, message) IN (
    SELECT subscription, message FROM headrace_delivery WHERE state = 3 AND ended_at < :before LIMIT 500)
RETURNING message

-- bus_forget_messages
-- Messages that are in no subscription any more.
DELETE FROM headrace_message AS message WHERE id IN (SELECT value FROM json_each(:messages))
   AND NOT EXISTS (SELECT 1 FROM headrace_delivery d WHERE d.message = message.id)
