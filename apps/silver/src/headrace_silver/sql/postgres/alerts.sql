-- name: alerts_claim
-- The symbols of which this channel has told nobody yet. Another run waits here until this one has told them or given up.
INSERT INTO silver_late_alert (day, symbol, channel)
SELECT :day::date, symbol, :channel FROM jsonb_array_elements_text(:symbols::jsonb) AS symbol ORDER BY symbol
    ON CONFLICT (day, symbol, channel) DO NOTHING
RETURNING symbol

-- name: alerts_forget
DELETE FROM silver_late_alert WHERE day < :before::date
