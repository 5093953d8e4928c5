-- name: request_key_begin
-- Take the key if it is new, or if it is without an answer and nobody is at it.
INSERT INTO request_key AS known (tenant, key, fingerprint, seed, holder, held_until, made_at)
VALUES (:tenant, :key, :fingerprint, :seed, :holder, clock_timestamp() + make_interval(secs => :hold_s),
        clock_timestamp())
ON CONFLICT (tenant, key) DO UPDATE
   SET holder = EXCLUDED.holder, held_until = EXCLUDED.held_until
 WHERE known.fingerprint = EXCLUDED.fingerprint AND known.status IS NULL
   AND (known.holder IS NULL OR known.holder = EXCLUDED.holder OR known.held_until <= clock_timestamp())

-- name: request_key_read
SELECT fingerprint, seed, holder, status, headers, body
  FROM request_key
 WHERE tenant = :tenant AND key = :key

-- name: request_key_finish
-- The first answer stands.
UPDATE request_key SET status = :status, headers = :headers::jsonb, body = :body
 WHERE tenant = :tenant AND key = :key AND status IS NULL

-- name: request_key_release
UPDATE request_key SET holder = NULL
 WHERE tenant = :tenant AND key = :key AND holder = :holder AND status IS NULL

-- name: request_key_forget
DELETE FROM request_key WHERE made_at < :before
