-- sink_tables
-- What a sink keeps beside the application's tables: one row per effect key, one per fence of a lost claim.
CREATE TABLE IF NOT EXISTS headrace_effect (
  effect_key TEXT    PRIMARY KEY,
  operation  TEXT    NOT NULL,
  fence      INTEGER NOT NULL,
  refused    INTEGER NOT NULL DEFAULT 0,
  answer     BLOB,
  applied_at REAL    NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS headrace_revoked (fence INTEGER PRIMARY KEY, revoked_at REAL NOT NULL);

-- fence_revoked
-- Whether the claim of this fence is lost.
SELECT 1 FROM headrace_revoked WHERE fence = :fence

-- fence_revoke
-- From the commit of this row on nothing is accepted under the fence.
INSERT INTO headrace_revoked (fence, revoked_at) VALUES (:fence, :now) ON CONFLICT DO NOTHING

-- effect_once
-- The first application of a key wins, whatever the fences.
INSERT INTO headrace_effect (effect_key, operation, fence, applied_at) VALUES (:key, 'once', :fence, :now)
    ON CONFLICT DO NOTHING
RETURNING fence

-- effect_put
-- The highest fence wins; the same fence again is the same holder, who may correct itself.
INSERT INTO headrace_effect (effect_key, operation, fence, applied_at) VALUES (:key, 'put', :fence, :now)
    ON CONFLICT (effect_key) DO UPDATE SET fence = excluded.fence, applied_at = excluded.applied_at
    WHERE headrace_effect.operation = 'put' AND headrace_effect.fence <= excluded.fence
RETURNING fence

-- effect_answer
-- What the change returned is kept for those who ask again.
UPDATE headrace_effect SET answer = :answer WHERE effect_key = :key

-- effect_refused
-- One more who changed nothing; no row if the key belongs to the other operation.
UPDATE headrace_effect SET refused = refused + 1 WHERE effect_key = :key AND operation = :operation
RETURNING answer

-- effect_list
-- Effect keys for people.
SELECT effect_key, operation, fence, refused, applied_at FROM headrace_effect
 WHERE effect_key >= :first AND effect_key < :last AND effect_key > :after
 ORDER BY effect_key LIMIT :limit
