-- name: cancel_request_add
INSERT INTO cancel_requests (slot, asked_at, job_id) VALUES (0, :asked_at, :job_id) ON CONFLICT DO NOTHING;

-- name: cancel_requests
SELECT asked_at AS "asked_at [time]", job_id
  FROM cancel_requests
 WHERE slot = 0 AND asked_at > :since
 ORDER BY asked_at, job_id
 LIMIT :room;

-- name: cancel_requests_delete
DELETE FROM cancel_requests WHERE slot = 0 AND asked_at <= :before;
