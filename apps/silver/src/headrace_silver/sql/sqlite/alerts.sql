-- name: alerts_claim
-- The symbols of which this channel has told nobody yet. Another run waits before this one has told them or given up.
INSERT INTO silver_late_alert (day, symbol, channel)
SELECT :day, value, :channel FROM json_each(:symbols) WHERE true ORDER BY value
    ON CONFLICT (day, symbol, channel) DO NOTHING
RETURNING symbol

-- name: alerts_forget
DELETE FROM silver_late_alert WHERE day < :before
