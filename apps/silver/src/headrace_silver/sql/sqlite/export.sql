-- name: export_bars
SELECT symbol, trade_date AS "trade_date [date]", open, high, low, close, volume, vwap, adj_close, currency,
       price_multiplier, source, first_seen_time AS "first_seen_time [time]", ingest_time AS "ingest_time [time]",
       content_hash
  FROM ta_silver
 WHERE (symbol, trade_date) > (:symbol, :day)
 ORDER BY symbol, trade_date
 LIMIT :most

-- name: export_articles
SELECT url_canonical, source_domain, publisher_time AS "publisher_time [time]",
       first_seen_time AS "first_seen_time [time]", language, title, text_normalized, content_hash,
       symbols AS "symbols [list]", author, topic_tags AS "topic_tags [list]", hype_raw, hype_crowd, hype_elitist,
       account_weights_applied AS "account_weights_applied [bool]", ingest_time AS "ingest_time [time]"
  FROM sa_silver
 WHERE url_canonical > :url
 ORDER BY url_canonical
 LIMIT :most

-- name: export_revisions
SELECT id, symbol, trade_date AS "trade_date [date]", open, high, low, close, volume, vwap, adj_close, currency,
       price_multiplier, source, first_seen_time AS "first_seen_time [time]", ingest_time AS "ingest_time [time]",
       content_hash, replaced_at AS "replaced_at [time]"
  FROM silver_revision
 WHERE id > :id
 ORDER BY id
 LIMIT :most

-- name: export_letters
SELECT id, task_id, reason, rule_id, payload, error_msg, created_at AS "created_at [time]"
  FROM task_q_dlq
 WHERE id > :id
 ORDER BY id
 LIMIT :most
