-- creates: silver_alert
-- Of which late symbols people were told, for which trading day; an empty symbol says that there is no bar at all.
CREATE TABLE silver_alert (
  day TEXT NOT NULL CHECK (day IS date(day)),
  symbol TEXT NOT NULL,
  alerted_at TEXT NOT NULL DEFAULT ({now}) CHECK ({is_time(alerted_at)}),
  PRIMARY KEY (day, symbol)
) STRICT, WITHOUT ROWID;
