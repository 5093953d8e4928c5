-- name: chaos_effect_add
-- The effect of an earlier run is found, and left alone.
INSERT INTO chaos_effects (job_id, token)
SELECT :job_id, :token WHERE NOT EXISTS (SELECT FROM chaos_effects WHERE job_id = :job_id);

-- name: chaos_note
INSERT INTO chaos_journal (resource, token, act, accepted) VALUES (:resource, :token, :act, :accepted);

-- name: chaos_effects
SELECT job_id, token FROM chaos_effects ORDER BY number;

-- name: chaos_journal
SELECT resource, token, act, accepted FROM chaos_journal ORDER BY number;

-- name: chaos_effect_count
SELECT count(*) FROM chaos_effects;

-- name: chaos_longest_pause
-- The longest time without an effect, in seconds.
SELECT coalesce(extract(epoch FROM max(pause)), 0)::float8
  FROM (SELECT at - lag(at) OVER (ORDER BY at) AS pause FROM chaos_effects) AS effect;

-- name: chaos_shop
-- What became of the orders.
SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM payments), (SELECT count(*) FROM shipments),
       (SELECT count(*) FROM orders WHERE status = 'shipped'), (SELECT coalesce(sum(stock), 0)::bigint FROM inventory);
