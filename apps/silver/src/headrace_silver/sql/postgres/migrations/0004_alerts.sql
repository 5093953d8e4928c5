-- creates: silver_late_alert
-- Of which late symbols people were told by which channel, for which trading day; an empty symbol says that there is no bar at all.
CREATE TABLE silver_late_alert (
  day DATE NOT NULL,
  symbol TEXT NOT NULL,
  channel TEXT NOT NULL,
  alerted_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  PRIMARY KEY (day, symbol, channel)
);
