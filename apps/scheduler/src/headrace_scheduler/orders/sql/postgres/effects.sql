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
