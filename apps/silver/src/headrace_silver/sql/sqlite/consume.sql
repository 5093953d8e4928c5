-- name: consume_fetch
-- The index ends with the id: the order is complete and nothing is sorted.
SELECT id, task_type, payload, first_seen FROM task_q
 WHERE status = 'ready'
 ORDER BY priority, first_seen, id LIMIT :size

-- name: consume_revising
-- Lives in this connection only and keeps what an upsert overwrites with other values, as it was.
CREATE TEMP TRIGGER IF NOT EXISTS silver_revising BEFORE UPDATE ON main.ta_silver
  WHEN (OLD.open, OLD.high, OLD.low, OLD.close, OLD.volume, OLD.vwap, OLD.adj_close, OLD.currency,
        OLD.price_multiplier)
       IS NOT (NEW.open, NEW.high, NEW.low, NEW.close, NEW.volume, NEW.vwap, NEW.adj_close, NEW.currency,
               NEW.price_multiplier)
BEGIN
  INSERT INTO silver_revision (symbol, trade_date, open, high, low, close, volume, vwap, adj_close, currency,
                               price_multiplier, source, first_seen_time, ingest_time, content_hash, replaced_at)
  VALUES (OLD.symbol, OLD.trade_date, OLD.open, OLD.high, OLD.low, OLD.close, OLD.volume, OLD.vwap, OLD.adj_close,
          OLD.currency, OLD.price_multiplier, OLD.source, OLD.first_seen_time, OLD.ingest_time, OLD.content_hash,
          NEW.ingest_time);
END

-- name: consume_indexable
-- What PostgreSQL could not index together. No CHECK, because that would judge what an upsert proposes and not the row
-- that comes of it, which keeps the source it has.
CREATE TEMP TRIGGER IF NOT EXISTS silver_indexable_insert AFTER INSERT ON main.sa_silver
  WHEN octet_length(NEW.source_domain) + octet_length(NEW.content_hash) > 2688
BEGIN
  SELECT raise(ABORT, 'source_domain and content_hash are too long for an index');
END;
CREATE TEMP TRIGGER IF NOT EXISTS silver_indexable_update AFTER UPDATE ON main.sa_silver
  WHEN octet_length(NEW.source_domain) + octet_length(NEW.content_hash) > 2688
BEGIN
  SELECT raise(ABORT, 'source_domain and content_hash are too long for an index');
END

-- name: consume_revised
-- How many have ever been kept.
SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'silver_revision'

-- name: consume_bars
-- NULL for a currency or multiplier means that none is stated. The smaller of two times is NULL here if one of them is.
INSERT INTO ta_silver (symbol, trade_date, open, high, low, close, volume, vwap, adj_close, currency,
                       price_multiplier, source, first_seen_time, content_hash, ingest_time)
VALUES (:symbol, :trade_date, :open, :high, :low, :close, :volume, :vwap, :adj_close, coalesce(:currency, 'VND'),
        coalesce(:price_multiplier, 1.0), :source, :first_seen_time, :content_hash, :now)
    ON CONFLICT (symbol, trade_date) DO UPDATE SET
       open = excluded.open, high = excluded.high, low = excluded.low, close = excluded.close,
       volume = excluded.volume, vwap = excluded.vwap, adj_close = excluded.adj_close,
       currency = coalesce(:currency, currency), price_multiplier = coalesce(:price_multiplier, price_multiplier),
       source = excluded.source,
       first_seen_time = coalesce(min(first_seen_time, excluded.first_seen_time), excluded.first_seen_time),
       content_hash = excluded.content_hash, ingest_time = excluded.ingest_time

-- name: consume_articles
INSERT INTO sa_silver (url_canonical, source_domain, publisher_time, first_seen_time, language, title,
                       text_normalized, content_hash, symbols, author, topic_tags, hype_raw, hype_crowd,
                       hype_elitist, account_weights_applied, ingest_time)
VALUES (:url_canonical, :source_domain, :publisher_time, :first_seen_time, :language, :title,
        :text_normalized, :content_hash, :symbols, :author, :topic_tags, :hype_raw, :hype_crowd,
        :hype_elitist, :account_weights_applied, :now)
    ON CONFLICT (url_canonical) DO UPDATE SET
       publisher_time = min(publisher_time, excluded.publisher_time),
       first_seen_time = min(first_seen_time, excluded.first_seen_time),
       language = coalesce(NULLIF(excluded.language, 'unknown'), language, excluded.language),
       title = coalesce(excluded.title, title),
       text_normalized = coalesce(excluded.text_normalized, text_normalized),
       symbols = CASE WHEN json_array_length(excluded.symbols) > 0 THEN excluded.symbols ELSE symbols END,
       author = coalesce(excluded.author, author),
       topic_tags = CASE WHEN json_array_length(excluded.topic_tags) > 0 THEN excluded.topic_tags ELSE topic_tags END,
       hype_raw = coalesce(excluded.hype_raw, hype_raw),
       hype_crowd = coalesce(excluded.hype_crowd, hype_crowd),
       hype_elitist = coalesce(excluded.hype_elitist, hype_elitist),
       account_weights_applied = coalesce(excluded.account_weights_applied, account_weights_applied),
       content_hash = excluded.content_hash,
       ingest_time = excluded.ingest_time

-- name: consume_letters
-- The payload is copied where it lies.
INSERT INTO task_q_dlq (task_id, reason, rule_id, payload, error_msg, created_at)
SELECT id, :reason, :rule_id, payload, :error_msg, :now FROM task_q WHERE id = :task_id

-- name: consume_marked
UPDATE task_q SET status = 'dlq', last_attempt = :now WHERE id = :task_id

-- name: consume_rejects
-- Counted day by day of the market, so that nobody has to read all letters for it.
INSERT INTO silver_reject_day (day, reason, rule_id, count)
VALUES (date(substr(:now, 1, 19), '+7 hours'), :reason, coalesce(:rule_id, ''), 1)
    ON CONFLICT (day, reason, rule_id) DO UPDATE SET count = count + 1

-- name: consume_done
DELETE FROM task_q WHERE id = :task_id

-- name: consume_flag
-- Counted no further than the question goes.
INSERT INTO control_flags (name, value, updated_at)
SELECT :name, count(*) > :threshold, :now
  FROM (SELECT 1 FROM task_q WHERE status = 'ready' LIMIT :threshold + 1)
 WHERE true
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at
RETURNING value AS "value [bool]"
