-- creates: silver_alert
-- Of which late symbols people were told, for which trading day; an empty symbol says that there is no bar at all.
CREATE TABLE silver_alert (
  day DATE NOT NULL,
  symbol TEXT NOT NULL,
  alerted_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  PRIMARY KEY (day, symbol)
);
