-- sink_begin
-- Two that make the tables of a sink at once do it one after the other.
SELECT pg_advisory_xact_lock(5207084121337)

-- sink_tables
-- What a sink keeps beside the application's tables: one row per effect key, one per fence of a lost claim.
CREATE TABLE IF NOT EXISTS headrace_effect (
  effect_key text COLLATE "C" PRIMARY KEY,
  operation  text        NOT NULL,
  fence      bigint      NOT NULL,
  refused    bigint      NOT NULL DEFAULT 0,
  answer     text,
  applied_at timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS headrace_revoked (fence bigint PRIMARY KEY, revoked_at timestamptz NOT NULL)

-- sink_session
-- A holder that froze inside its transaction loses it, and no change takes for ever.
SELECT set_config('idle_in_transaction_session_timeout', %(idle_ms)s, false),
       set_config('statement_timeout', %(statement_ms)s, false)

-- fence_share
-- A write holds its fence until it has committed, so that a revocation waits for it.
SELECT pg_advisory_xact_lock_shared(%(fence)s::bigint)

-- fences_lock
-- A revocation waits for the writes that have begun; those that begin later wait for it.
SELECT pg_advisory_xact_lock(fence) FROM unnest(%(fences)s::bigint[]) AS fence

-- fence_revoked
-- Whether the claim of this fence is lost. A statement of its own: its snapshot is taken after the lock was.
SELECT 1 FROM headrace_revoked WHERE fence = %(fence)s

-- fences_revoke
-- From the commit of these rows on nothing is accepted under the fences.
INSERT INTO headrace_revoked (fence, revoked_at) SELECT fence, now() FROM unnest(%(fences)s::bigint[]) AS fence
    ON CONFLICT DO NOTHING

-- effect_once
-- The first application of a key wins, whatever the fences. Whoever comes while it is under way waits for its end.
INSERT INTO headrace_effect (effect_key, operation, fence, applied_at) VALUES (%(key)s, 'once', %(fence)s, now())
    ON CONFLICT DO NOTHING
RETURNING fence

-- effect_put
-- The highest fence wins; the same fence again is the same holder, who may correct itself.
INSERT INTO headrace_effect (effect_key, operation, fence, applied_at) VALUES (%(key)s, 'put', %(fence)s, now())
    ON CONFLICT (effect_key) DO UPDATE SET fence = excluded.fence, applied_at = excluded.applied_at, answer = NULL
    WHERE headrace_effect.operation = 'put' AND headrace_effect.fence <= excluded.fence
RETURNING fence

-- effect_answer
-- What the change returned is kept for those who ask again.
UPDATE headrace_effect SET answer = %(answer)s WHERE effect_key = %(key)s

-- effect_refused
-- One more who changed nothing; no row if the key belongs to the other operation.
UPDATE headrace_effect SET refused = refused + 1 WHERE effect_key = %(key)s AND operation = %(operation)s
RETURNING answer

-- effect_list
-- Effect keys for people.
SELECT effect_key, operation, fence, refused, extract(epoch FROM applied_at)::float8 FROM headrace_effect
 WHERE effect_key >= %(first)s AND effect_key < %(last)s AND effect_key > %(after)s
 ORDER BY effect_key LIMIT %(limit)s
