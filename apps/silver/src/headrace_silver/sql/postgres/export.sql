-- name: export_bars
SELECT symbol, trade_date, open, high, low, close, volume, vwap, adj_close, currency, price_multiplier, source,
       first_seen_time, ingest_time, content_hash
  FROM ta_silver
 WHERE (symbol, trade_date) > (:symbol, :day::date) AND trade_date BETWEEN '0001-01-01' AND '9999-12-31'
 ORDER BY symbol, trade_date
 LIMIT :most

-- name: export_articles
SELECT url_canonical, source_domain, publisher_time, first_seen_time, language, title, text_normalized, content_hash,
       symbols, author, topic_tags, hype_raw, hype_crowd, hype_elitist, account_weights_applied, ingest_time
  FROM sa_silver
 WHERE url_canonical > :url
 ORDER BY url_canonical
 LIMIT :most

-- name: export_revisions
SELECT id, symbol, trade_date, open, high, low, close, volume, vwap, adj_close, currency, price_multiplier, source,
       first_seen_time, ingest_time, content_hash, replaced_at
  FROM silver_revision
 WHERE id > :id
 ORDER BY id
 LIMIT :most

-- name: export_letters
SELECT id, task_id, reason, rule_id, payload::text, error_msg, created_at
  FROM task_q_dlq
 WHERE id > :id
 ORDER BY id
 LIMIT :most
