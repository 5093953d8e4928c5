-- name: order_add
-- Not a second time: a repeat reads what the first has made.
INSERT INTO orders (order_id, customer_id, status, total, created_at)
VALUES (:order_id, :customer_id, 'pending', :total, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
ON CONFLICT DO NOTHING;
