-- name: fence_raise
-- Changes no row if a later run has raised it above this token.
INSERT INTO sink_fences (resource, fence) VALUES (:resource, :fence)
ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence WHERE sink_fences.fence <= excluded.fence;

-- name: fence_of
SELECT fence FROM sink_fences WHERE resource = :resource;

-- name: payment_add
INSERT INTO payments (order_id, idempotency_key, amount, fence, paid_at)
VALUES (:order_id, :idempotency_key, :amount, :fence, now())
ON CONFLICT DO NOTHING;

-- name: shipment_add
INSERT INTO shipments (order_id, fence, shipped_at) VALUES (:order_id, :fence, now())
ON CONFLICT DO NOTHING;

-- name: refund_add
INSERT INTO refunds (order_id, idempotency_key, amount, fence, refunded_at)
VALUES (:order_id, :idempotency_key, :amount, :fence, now())
ON CONFLICT DO NOTHING;

-- name: refund_of
SELECT amount FROM refunds WHERE order_id = :order_id;
