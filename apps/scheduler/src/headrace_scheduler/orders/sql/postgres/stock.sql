-- name: article_of
SELECT stock, price, version, withdrawn FROM inventory WHERE sku = :sku;
