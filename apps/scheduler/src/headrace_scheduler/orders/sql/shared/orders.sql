-- name: order_of
SELECT customer_id, status, total, failure FROM orders WHERE order_id = :order_id;

-- name: order_lines
-- In the order in which the customer named them.
SELECT sku, quantity FROM order_items WHERE order_id = :order_id ORDER BY line;

-- name: order_line_add
INSERT INTO order_items (order_id, line, sku, quantity, price) VALUES (:order_id, :line, :sku, :quantity, :price);

-- name: order_reject
UPDATE orders SET status = 'rejected', failure = :failure WHERE order_id = :order_id AND status = 'pending';

-- name: order_pay
UPDATE orders SET status = 'paid' WHERE order_id = :order_id AND status = 'pending';

-- name: order_ship
-- Not one that is being refunded.
UPDATE orders SET status = 'shipped' WHERE order_id = :order_id AND status = 'paid' AND failure IS NULL;

-- name: order_fail
-- It stays paid until money and stock were given back.
UPDATE orders SET failure = :failure WHERE order_id = :order_id AND status = 'paid' AND failure IS NULL;

-- name: order_refund
UPDATE orders SET status = 'refunded' WHERE order_id = :order_id AND status = 'paid';
