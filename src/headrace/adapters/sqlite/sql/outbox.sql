-- outbox_add
-- An event that is not a job's own; an id seen before is the same event.
INSERT INTO headrace_event (event_id, topic, job, generation, body, happened_at, key, payload, headers)
VALUES (:event_id, :topic, '', 0, '', :now, :key, :payload, :headers)
    ON CONFLICT (event_id) DO NOTHING
RETURNING id

-- outbox_claim
-- Among the oldest events that nobody holds, those that stand behind no held one of their key. Events of other topics
-- count for nothing. What is held is looked for once: asked for each event, a long line of one key would be read as often
-- as it has events.
WITH free AS MATERIALIZED (
    SELECT e.id, coalesce(e.key, e.job) AS line FROM headrace_event e
     WHERE e.published_at IS NULL AND (e.claim IS NULL OR e.claim_until < :now OR e.claim_boot <> :boot)
       AND (:topics = '[]' OR e.topic IN (SELECT value FROM json_each(:topics)))
     ORDER BY e.id LIMIT :window
), held AS MATERIALIZED (
    SELECT coalesce(b.key, b.job) AS line, min(b.id) AS id FROM headrace_event b
     WHERE b.published_at IS NULL AND b.id < (SELECT max(f.id) FROM free f)
       AND b.claim IS NOT NULL AND b.claim_until >= :now AND b.claim_boot = :boot
       AND (:topics = '[]' OR b.topic IN (SELECT value FROM json_each(:topics)))
     GROUP BY 1
)
UPDATE headrace_event SET claim = :fence, claim_until = :until, claim_boot = :boot
 WHERE id IN (
    SELECT f.id FROM free f LEFT JOIN held h ON h.line = f.line
     WHERE h.id IS NULL OR f.id <= h.id
     ORDER BY f.id LIMIT :room)
RETURNING id, event_id, topic, coalesce(key, job), body, payload, headers, happened_at

-- outbox_any
-- Whether anything can be claimed: an idle relay writes nothing.
SELECT 1 FROM headrace_event
 WHERE published_at IS NULL AND (claim IS NULL OR claim_until < :now OR claim_boot <> :boot) LIMIT 1

-- outbox_any_of
-- The same for some topics, however many events of others wait.
SELECT 1 FROM headrace_event
 WHERE published_at IS NULL AND topic IN (SELECT value FROM json_each(:topics))
   AND (claim IS NULL OR claim_until < :now OR claim_boot <> :boot) LIMIT 1

-- outbox_published
-- The bus has it. Only the holder may say so, and a repeat finds it said.
UPDATE headrace_event SET published_at = coalesce(published_at, :now)
 WHERE event_id IN (SELECT value FROM json_each(:event_ids)) AND claim = :fence

-- outbox_release
-- The hold ends at a moment of the holder's choosing; until then it keeps later events of its key back.
UPDATE headrace_event SET claim_until = :until
 WHERE event_id IN (SELECT value FROM json_each(:event_ids)) AND claim = :fence AND published_at IS NULL

-- outbox_lag
-- How many events wait to be told, and since when.
SELECT count(*), min(happened_at) FROM headrace_event
 WHERE published_at IS NULL AND (:topics = '[]' OR topic IN (SELECT value FROM json_each(:topics)))

-- outbox_forget
-- Published events that are not a job's own; those go with their job.
DELETE FROM headrace_event WHERE id IN (
    SELECT id FROM headrace_event WHERE published_at < :before AND published_at IS NOT NULL AND job = '' LIMIT 500)

-- outbox_forget_key
-- What was not published of a key, unless it is a job's own.
DELETE FROM headrace_event WHERE coalesce(key, job) = :key AND published_at IS NULL AND job = ''

-- inbox_insert
-- The first of its kind inserts; a repeat inserts nothing.
INSERT INTO headrace_inbox (subscription, event_id, consumed_at) VALUES (:subscription, :event_id, :now)
    ON CONFLICT DO NOTHING
RETURNING 1

-- inbox_forget
-- Messages that no bus will deliver again.
DELETE FROM headrace_inbox WHERE (subscription, event_id) IN (
    SELECT subscription, event_id FROM headrace_inbox WHERE consumed_at < :before LIMIT 500)
