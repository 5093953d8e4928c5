-- name: market_exchanges
SELECT symbol, since AS "since [date]", exchange FROM silver_exchange ORDER BY symbol, since

-- name: market_actions
SELECT symbol, ex_date AS "ex_date [date]", kind, ratio, cash, price
  FROM silver_corporate_action
 WHERE ex_date BETWEEN :first AND :last
 ORDER BY symbol, ex_date, kind

-- name: market_put_exchanges
INSERT INTO silver_exchange (symbol, since, exchange)
SELECT value ->> '$.symbol', value ->> '$.since', value ->> '$.exchange' FROM json_each(:rows) WHERE true
    ON CONFLICT (symbol, since) DO UPDATE SET exchange = excluded.exchange

-- name: market_put_actions
INSERT INTO silver_corporate_action (symbol, ex_date, kind, ratio, cash, price)
SELECT value ->> '$.symbol', value ->> '$.ex_date', value ->> '$.kind', value ->> '$.ratio', value ->> '$.cash',
       value ->> '$.price'
  FROM json_each(:rows) WHERE true
    ON CONFLICT (symbol, ex_date, kind) DO UPDATE SET
       ratio = excluded.ratio, cash = excluded.cash, price = excluded.price

-- name: market_forget_exchanges
DELETE FROM silver_exchange

-- name: market_forget_actions
DELETE FROM silver_corporate_action
