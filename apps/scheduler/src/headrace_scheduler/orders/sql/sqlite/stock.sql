-- name: article_of
SELECT stock, price, version, withdrawn AS "withdrawn [bool]" FROM inventory WHERE sku = :sku;
