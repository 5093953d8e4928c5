-- name: market_exchanges
SELECT symbol, since, exchange FROM silver_exchange ORDER BY symbol, since

-- name: market_actions
SELECT symbol, ex_date, kind, ratio, cash, price
  FROM silver_corporate_action
 WHERE ex_date BETWEEN :first AND :last
 ORDER BY symbol, ex_date, kind

-- name: market_put_exchanges
INSERT INTO silver_exchange (symbol, since, exchange)
SELECT symbol, since, exchange
  FROM jsonb_to_recordset(:rows::jsonb) AS given(symbol text, since date, exchange text)
    ON CONFLICT (symbol, since) DO UPDATE SET exchange = EXCLUDED.exchange

-- name: market_put_actions
INSERT INTO silver_corporate_action (symbol, ex_date, kind, ratio, cash, price)
SELECT symbol, ex_date, kind, ratio, cash, price
  FROM jsonb_to_recordset(:rows::jsonb)
    AS given(symbol text, ex_date date, kind text, ratio float8, cash float8, price float8)
    ON CONFLICT (symbol, ex_date, kind) DO UPDATE SET
       ratio = EXCLUDED.ratio, cash = EXCLUDED.cash, price = EXCLUDED.price

-- name: market_forget_exchanges
DELETE FROM silver_exchange

-- name: market_forget_actions
DELETE FROM silver_corporate_action
