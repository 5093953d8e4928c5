-- name: alerts_claim
-- The symbols of which nobody was told yet. Another run waits here until this one has told them or given up.
INSERT INTO silver_alert (day, symbol)
SELECT :day::date, symbol FROM jsonb_array_elements_text(:symbols::jsonb) AS symbol ORDER BY symbol
    ON CONFLICT (day, symbol) DO NOTHING
RETURNING symbol

-- name: alerts_forget
DELETE FROM silver_alert WHERE day < :before::date
