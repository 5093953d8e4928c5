-- creates: silver_late_alert
-- Of which late symbols people were told by which channel, for which trading day; an empty symbol says that there is no bar at all.
CREATE TABLE silver_late_alert (
  day TEXT NOT NULL CHECK (day IS date(day)),
  symbol TEXT NOT NULL,
  channel TEXT NOT NULL,
  alerted_at TEXT NOT NULL DEFAULT ({now}) CHECK ({is_time(alerted_at)}),
  PRIMARY KEY (day, symbol, channel)
) STRICT, WITHOUT ROWID;
