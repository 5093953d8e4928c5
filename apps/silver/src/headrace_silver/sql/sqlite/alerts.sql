-- name: alerts_claim
-- The symbols of which nobody was told yet. Another run waits before this one has told them or given up.
INSERT INTO silver_alert (day, symbol)
SELECT :day, value FROM json_each(:symbols) WHERE true ORDER BY value
    ON CONFLICT (day, symbol) DO NOTHING
RETURNING symbol

-- name: alerts_forget
DELETE FROM silver_alert WHERE day < :before
