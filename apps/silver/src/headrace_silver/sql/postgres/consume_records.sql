-- name: consume_bars_input
input AS MATERIALIZED (
  SELECT * FROM unnest(:symbol, :trade_date, :open, :high, :low, :close, :volume, :vwap, :adj_close, :currency,
                       :price_multiplier, :source, :first_seen_time, :content_hash)
      AS input(symbol, trade_date, open, high, low, close, volume, vwap, adj_close, currency,
               price_multiplier, source, first_seen_time, content_hash)
)

-- name: consume_bars_revised
-- Locked before they are read, so that what is kept is what is overwritten.
prior AS (
  SELECT stored.* FROM input JOIN ta_silver AS stored USING (symbol, trade_date)
   WHERE (stored.open, stored.high, stored.low, stored.close, stored.volume, stored.vwap, stored.adj_close,
          stored.currency, stored.price_multiplier)
         IS DISTINCT FROM
         (input.open, input.high, input.low, input.close, input.volume, input.vwap, input.adj_close,
          coalesce(input.currency, stored.currency), coalesce(input.price_multiplier, stored.price_multiplier))
     FOR UPDATE OF stored
), revised AS (
  INSERT INTO silver_revision (symbol, trade_date, open, high, low, close, volume, vwap, adj_close, currency,
                               price_multiplier, source, first_seen_time, ingest_time, content_hash)
  SELECT symbol, trade_date, open, high, low, close, volume, vwap, adj_close, currency,
         price_multiplier, source, first_seen_time, ingest_time, content_hash
    FROM prior
)

-- name: consume_bars_written
-- What this group of bars states beyond the rest is put in: EXCLUDED cannot tell a default from a statement.
written AS (
  INSERT INTO ta_silver (symbol, trade_date, open, high, low, close, volume, vwap, adj_close, currency,
                         price_multiplier, source, first_seen_time, content_hash)
  SELECT symbol, trade_date, open, high, low, close, volume, vwap, adj_close, coalesce(currency, 'VND'),
         coalesce(price_multiplier, 1.0), source, first_seen_time, content_hash
    FROM input
      ON CONFLICT (symbol, trade_date) DO UPDATE SET {restated}
         open = EXCLUDED.open, high = EXCLUDED.high, low = EXCLUDED.low, close = EXCLUDED.close,
         volume = EXCLUDED.volume, vwap = EXCLUDED.vwap, adj_close = EXCLUDED.adj_close, source = EXCLUDED.source,
         first_seen_time = LEAST(ta_silver.first_seen_time, EXCLUDED.first_seen_time), ingest_time = now(),
         content_hash = EXCLUDED.content_hash
)

-- name: consume_articles
INSERT INTO sa_silver AS stored (url_canonical, source_domain, publisher_time, first_seen_time, language, title,
                                 text_normalized, content_hash, symbols, author, topic_tags, hype_raw, hype_crowd,
                                 hype_elitist, account_weights_applied)
SELECT url_canonical, source_domain, publisher_time, first_seen_time, language, title,
       text_normalized, content_hash, symbols::text[], author, topic_tags::text[], hype_raw, hype_crowd,
       hype_elitist, account_weights_applied
  FROM unnest(:url_canonical, :source_domain, :publisher_time, :first_seen_time, :language, :title,
              :text_normalized, :content_hash, :symbols, :author, :topic_tags, :hype_raw, :hype_crowd,
              :hype_elitist, :account_weights_applied)
    AS input(url_canonical, source_domain, publisher_time, first_seen_time, language, title,
             text_normalized, content_hash, symbols, author, topic_tags, hype_raw, hype_crowd,
             hype_elitist, account_weights_applied)
    ON CONFLICT (url_canonical) DO UPDATE SET
       publisher_time = LEAST(stored.publisher_time, EXCLUDED.publisher_time),
       first_seen_time = LEAST(stored.first_seen_time, EXCLUDED.first_seen_time),
       language = coalesce(NULLIF(EXCLUDED.language, 'unknown'), stored.language, EXCLUDED.language),
       title = coalesce(EXCLUDED.title, stored.title),
       text_normalized = coalesce(EXCLUDED.text_normalized, stored.text_normalized),
       symbols = CASE WHEN cardinality(EXCLUDED.symbols) > 0 THEN EXCLUDED.symbols ELSE stored.symbols END,
       author = coalesce(EXCLUDED.author, stored.author),
       topic_tags = CASE WHEN cardinality(EXCLUDED.topic_tags) > 0 THEN EXCLUDED.topic_tags ELSE stored.topic_tags END,
       hype_raw = coalesce(EXCLUDED.hype_raw, stored.hype_raw),
       hype_crowd = coalesce(EXCLUDED.hype_crowd, stored.hype_crowd),
       hype_elitist = coalesce(EXCLUDED.hype_elitist, stored.hype_elitist),
       account_weights_applied = coalesce(EXCLUDED.account_weights_applied, stored.account_weights_applied),
       content_hash = EXCLUDED.content_hash,
       ingest_time = now()
