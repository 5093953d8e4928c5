-- name: article_put
INSERT INTO inventory (sku, stock, price, version) VALUES (:sku, :stock, :price, 1)
ON CONFLICT (sku) DO UPDATE
   SET stock = excluded.stock, price = excluded.price, withdrawn = false, version = inventory.version + 1
RETURNING stock, price, version;

-- name: article_withdraw
UPDATE inventory SET withdrawn = true, version = version + 1 WHERE sku = :sku AND NOT withdrawn;

-- name: stock_take
-- Only as it was read.
UPDATE inventory SET stock = stock - :quantity, version = version + 1 WHERE sku = :sku AND version = :version;

-- name: stock_give_back
UPDATE inventory SET stock = stock + :quantity, version = version + 1 WHERE sku = :sku;
