-- name: fence_raise
-- Changes no row if a later run has raised it above this token.
INSERT INTO sink_fences (resource, fence) VALUES (:resource, :fence)
ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE sink_fences.fence <= excluded.fence;

-- name: fence_of
SELECT fence FROM sink_fences WHERE resource = :resource;

-- name: refund_of
SELECT amount FROM refunds WHERE order_id = :order_id;
