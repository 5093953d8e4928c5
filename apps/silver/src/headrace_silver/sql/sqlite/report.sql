-- name: report_symbols
-- Every symbol with its first and last bar, by jumping through the key: the cost is that of the symbols, not the bars.
WITH RECURSIVE known AS (
  SELECT min(symbol) AS symbol FROM ta_silver
  UNION ALL
  SELECT (SELECT min(later.symbol) FROM ta_silver AS later WHERE later.symbol > known.symbol)
    FROM known WHERE known.symbol IS NOT NULL
)
SELECT symbol,
       (SELECT min(trade_date) FROM ta_silver AS bar
         WHERE bar.symbol = known.symbol AND trade_date BETWEEN '0001-01-01' AND :today) AS "first_day [date]",
       (SELECT max(trade_date) FROM ta_silver AS bar
         WHERE bar.symbol = known.symbol AND trade_date BETWEEN '0001-01-01' AND :today) AS "last_day [date]"
  FROM known
 WHERE symbol IS NOT NULL
 ORDER BY symbol

-- name: report_days
-- On which days of the window a symbol has a bar: days since the window's first.
SELECT symbol, json_group_array(CAST(julianday(trade_date) - julianday(:first) AS INTEGER)) AS "days [list]"
  FROM ta_silver
 WHERE trade_date BETWEEN :first AND :last
 GROUP BY symbol

-- name: report_revised
SELECT symbol, count(*),
       json_group_array(DISTINCT CAST(julianday(trade_date) - julianday(:first) AS INTEGER)) AS "days [list]"
  FROM silver_revision
 WHERE trade_date BETWEEN :first AND :last
 GROUP BY symbol

-- name: report_bands
-- Bars that leave the narrowest band around the last close or the last average price; each is then looked at exactly.
-- What no price in dong can be is left out before it is multiplied.
SELECT symbol, trade_date AS "trade_date [date]", previous_date AS "previous_date [date]",
       reference_close, reference_vwap, low, high
  FROM (SELECT symbol, trade_date, low * multiplier AS low, high * multiplier AS high,
               currency, lag(currency) OVER earlier AS previous_currency, lag(trade_date) OVER earlier AS previous_date,
               lag(close * multiplier) OVER earlier AS reference_close,
               lag(CASE WHEN vwap BETWEEN 1e-6 AND 1e15 THEN vwap ELSE close END * multiplier) OVER earlier
                 AS reference_vwap
          FROM (SELECT symbol, trade_date, low, high, close, vwap, currency,
                       CASE WHEN high < 1e15 AND (low > 1e-6 OR high = 0) AND open BETWEEN low AND high
                                 AND close BETWEEN low AND high AND price_multiplier BETWEEN 1e-6 AND 1e9
                            THEN price_multiplier END AS multiplier
                  FROM ta_silver
                 WHERE trade_date BETWEEN :before AND :last) AS sane
        WINDOW earlier AS (PARTITION BY symbol ORDER BY trade_date)) AS bar
 WHERE trade_date >= :first AND currency = 'VND' AND previous_currency = 'VND'
   AND (high > min(reference_close, reference_vwap) * (1 + :band)
        OR low < max(reference_close, reference_vwap) * (1 - :band))
 ORDER BY symbol, trade_date
 LIMIT :most

-- name: report_ticks
-- Days with a price between the steps of its exchange. `steps` names the symbols whose step does not follow the price. It
-- is made a table first, which gets an index: read as JSON it would be searched from its beginning for each bar.
WITH stated AS MATERIALIZED (
  SELECT key AS symbol, value AS step FROM json_each(:steps)
), bar AS (
  SELECT sane.symbol, trade_date, open * multiplier AS open, high * multiplier AS high,
         low * multiplier AS low, close * multiplier AS close, stated.step
    FROM (SELECT symbol, trade_date, open, high, low, close,
                 CASE WHEN high < 1e15 AND (low > 1e-6 OR high = 0) AND open BETWEEN low AND high
                           AND close BETWEEN low AND high AND price_multiplier BETWEEN 1e-6 AND 1e9
                      THEN price_multiplier END AS multiplier
            FROM ta_silver
           WHERE trade_date BETWEEN :first AND :last AND currency = 'VND') AS sane
    LEFT JOIN stated USING (symbol)
), stepped AS (
  SELECT bar.*,
         coalesce(step, CASE WHEN open < 10000 THEN 10 WHEN open < 50000 THEN 50 ELSE 100 END) AS open_step,
         coalesce(step, CASE WHEN high < 10000 THEN 10 WHEN high < 50000 THEN 50 ELSE 100 END) AS high_step,
         coalesce(step, CASE WHEN low < 10000 THEN 10 WHEN low < 50000 THEN 50 ELSE 100 END) AS low_step,
         coalesce(step, CASE WHEN close < 10000 THEN 10 WHEN close < 50000 THEN 50 ELSE 100 END) AS close_step
    FROM bar
)
SELECT symbol, json_group_array(CAST(julianday(trade_date) - julianday(:first) AS INTEGER)) AS "days [list]"
  FROM stepped
 WHERE abs(open - round(open / open_step) * open_step) > max(open, 1) * 1e-9
    OR abs(high - round(high / high_step) * high_step) > max(high, 1) * 1e-9
    OR abs(low - round(low / low_step) * low_step) > max(low, 1) * 1e-9
    OR abs(close - round(close / close_step) * close_step) > max(close, 1) * 1e-9
 GROUP BY symbol

-- name: report_rejects
SELECT day AS "day [date]", reason, rule_id, count
  FROM silver_reject_day
 WHERE day BETWEEN :first AND :last
 ORDER BY day, reason, rule_id

-- name: report_letters
-- Letters of bars by symbol, rule and day, among the latest so many, each with the last of them; what a payload does not
-- name is empty.
SELECT coalesce(letter.symbol, '') AS symbol, coalesce(letter.rule_id, letter.reason) AS rule,
       coalesce(letter.day, '') AS day, count(*), max(letter.id)
  FROM (SELECT id, rule_id, reason,
               CASE WHEN json_type(payload) = 'object' AND json_type(payload, '$.symbol') = 'text'
                    THEN substr(payload ->> '$.symbol', 1, 40) END AS symbol,
               CASE WHEN json_type(payload) = 'object' AND json_type(payload, '$.trade_date') = 'text'
                    THEN substr(payload ->> '$.trade_date', 1, 40) END AS day
          FROM (SELECT id, payload, rule_id, reason, created_at FROM task_q_dlq ORDER BY id DESC LIMIT :most) AS latest
         WHERE created_at >= :since AND (rule_id GLOB 'ta_*' OR reason = 'exception')) AS letter
 GROUP BY 1, 2, 3
 ORDER BY 1, 2, 3

-- name: report_closed
-- What people wrote about the letters that they closed, the latest first.
SELECT coalesce(letter.rule_id, letter.reason) AS rule, closed.note, closed.closed_by, count(*), max(closed.letter_id),
       max(closed.closed_at) AS "closed_at [time]"
  FROM silver_closed AS closed JOIN task_q_dlq AS letter ON letter.id = closed.letter_id
 WHERE closed.closed_at >= :since
 GROUP BY 1, 2, 3
 ORDER BY max(closed.closed_at) DESC, 5 DESC
 LIMIT :most

-- name: report_articles
SELECT count(*), count(DISTINCT source_domain), count(*) FILTER (WHERE json_array_length(symbols) > 0)
  FROM sa_silver
 WHERE publisher_time >= :since

-- name: report_sources
-- Lags in whole seconds; the median and the 95th of a hundred are members of the sample, not interpolations.
SELECT source_domain, count(*) AS articles,
       count(*) FILTER (WHERE language = 'vi'), count(*) FILTER (WHERE language = 'en'),
       count(*) FILTER (WHERE language NOT IN ('vi', 'en')), count(*) FILTER (WHERE language IS NULL),
       min(lag_s) FILTER (WHERE place * 2 >= whole), min(lag_s) FILTER (WHERE place * 100 >= whole * 95)
  FROM (SELECT source_domain, language, lag_s,
               row_number() OVER (PARTITION BY source_domain ORDER BY lag_s) AS place,
               count(*) OVER (PARTITION BY source_domain) AS whole
          FROM (SELECT source_domain, language,
                       unixepoch(substr(first_seen_time, 1, 19)) - unixepoch(substr(publisher_time, 1, 19)) AS lag_s
                  FROM sa_silver
                 WHERE publisher_time >= :since) AS seen
       ) AS ranked
 GROUP BY source_domain
 ORDER BY articles DESC, source_domain
 LIMIT :most

-- name: report_copies
-- Articles of one source with one content under several addresses; the last two figures are those of all groups.
SELECT source_domain, content_hash, count(*) AS copies, min(url_canonical), max(url_canonical), max(title),
       count(*) OVER (), sum(count(*) - 1) OVER ()
  FROM sa_silver
 WHERE publisher_time >= :since
 GROUP BY source_domain, content_hash
HAVING count(*) > 1
 ORDER BY copies DESC, source_domain, content_hash
 LIMIT :most

-- name: report_flag
SELECT value AS "value [bool]", updated_at AS "updated_at [time]" FROM control_flags WHERE name = :name

-- name: revisions_kept
-- What the bars of a symbol were, latest first, and when that was overwritten.
SELECT trade_date AS "trade_date [date]", open, high, low, close, volume, vwap, adj_close, currency, price_multiplier,
       source, ingest_time AS "ingest_time [time]", replaced_at AS "replaced_at [time]"
  FROM silver_revision
 WHERE symbol = :symbol AND (:day IS NULL OR trade_date = :day)
 ORDER BY trade_date DESC, id DESC
 LIMIT :most

-- name: revisions_current
-- What those bars are now.
SELECT trade_date AS "trade_date [date]", open, high, low, close, volume, vwap, adj_close, currency, price_multiplier,
       source, ingest_time AS "ingest_time [time]"
  FROM ta_silver
 WHERE symbol = :symbol
   AND trade_date IN (SELECT trade_date FROM silver_revision
                       WHERE symbol = :symbol AND (:day IS NULL OR trade_date = :day)
                       ORDER BY trade_date DESC, id DESC LIMIT :most)
 ORDER BY trade_date DESC
