"""What the silver worker is measured against: the specification's own way, row by row, and the bare database work."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from headrace_silver.records.judgement import judge
from headrace_silver.records.rules import RuleSettings
from headrace_silver.records.values import Article, Bar, Task

BATCH = 500
THRESHOLD = 10_000
Connection = psycopg.Connection[tuple[Any, ...]]

FETCH = """
SELECT t.id, t.task_type, t.payload::text, t.first_seen FROM task_q t
  JOIN (SELECT id FROM task_q WHERE status = 'ready' ORDER BY priority, first_seen LIMIT %s FOR UPDATE SKIP LOCKED) h
    ON h.id = t.id
"""
BAR_SET = """
 ON CONFLICT (symbol, trade_date) DO UPDATE SET open = EXCLUDED.open, high = EXCLUDED.high, low = EXCLUDED.low,
    close = EXCLUDED.close, volume = EXCLUDED.volume, vwap = EXCLUDED.vwap, adj_close = EXCLUDED.adj_close,
    source = EXCLUDED.source, first_seen_time = LEAST(ta_silver.first_seen_time, EXCLUDED.first_seen_time),
    ingest_time = now(), content_hash = EXCLUDED.content_hash
"""
ARTICLE_SET = """
 ON CONFLICT (url_canonical) DO UPDATE SET
    publisher_time = LEAST(sa_silver.publisher_time, EXCLUDED.publisher_time),
    first_seen_time = LEAST(sa_silver.first_seen_time, EXCLUDED.first_seen_time),
    language = COALESCE(EXCLUDED.language, sa_silver.language), title = COALESCE(EXCLUDED.title, sa_silver.title),
    text_normalized = COALESCE(EXCLUDED.text_normalized, sa_silver.text_normalized),
    symbols = CASE WHEN cardinality(EXCLUDED.symbols) > 0 THEN EXCLUDED.symbols ELSE sa_silver.symbols END,
    content_hash = EXCLUDED.content_hash, ingest_time = now()
"""
ONE_BAR = f"""
INSERT INTO ta_silver (symbol, trade_date, open, high, low, close, volume, vwap, adj_close, source, first_seen_time,
                       content_hash)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) {BAR_SET}
"""
ONE_ARTICLE = f"""
INSERT INTO sa_silver (url_canonical, source_domain, publisher_time, first_seen_time, language, title, text_normalized,
                       content_hash, symbols)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) {ARTICLE_SET}
"""
LETTER = "INSERT INTO task_q_dlq (task_id, reason, rule_id, payload, error_msg) VALUES (%s, %s, %s, %s::jsonb, %s)"
MARK = "UPDATE task_q SET status = 'dlq', last_attempt = now() WHERE id = %s"
DONE = "DELETE FROM task_q WHERE id = %s"
COUNT = "SELECT count(*) FROM task_q WHERE status = 'ready'"
FLAG = """
INSERT INTO control_flags (name, value, updated_at) VALUES ('SCRAPE_SLOW', %s, now())
    ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value, updated_at = now()
"""
# The fastest way known to write a batch without looking at it: the payloads never leave the server again.
ALL_BARS = f"""
INSERT INTO ta_silver (symbol, trade_date, open, high, low, close, volume, vwap, adj_close, source, first_seen_time,
                       content_hash)
SELECT DISTINCT ON (p.symbol, p.trade_date) p.symbol, p.trade_date, p.open, p.high, p.low, p.close, p.volume, p.vwap,
       p.adj_close, p.source, t.first_seen, p.content_hash
  FROM task_q t, jsonb_populate_record(NULL::ta_silver, t.payload) p
 WHERE t.id = ANY(%s) AND t.task_type = 'ta.bar' {BAR_SET}
"""
ALL_ARTICLES = f"""
INSERT INTO sa_silver (url_canonical, source_domain, publisher_time, first_seen_time, language, title, text_normalized,
                       content_hash, symbols)
SELECT DISTINCT ON (p.url_canonical) p.url_canonical, p.source_domain, p.publisher_time, t.first_seen, p.language,
       p.title, p.text_normalized, p.content_hash, p.symbols
  FROM task_q t, jsonb_populate_record(NULL::sa_silver, t.payload) p
 WHERE t.id = ANY(%s) AND t.task_type = 'sa.article' {ARTICLE_SET}
"""


def row_by_row(url: str) -> int:
    """The specification's algorithm: a statement per task for the record and one for the queue."""
    count, rules = 0, RuleSettings()
    with psycopg.connect(url) as connection:
        while rows := connection.execute(FETCH, [BATCH]).fetchall():
            now = connection.execute("SELECT now()").fetchall()[0][0]
            for row in rows:
                _one(connection, Task(*row), judge([Task(*row)], now, rules))
            backlog = connection.execute(COUNT).fetchall()[0][0]
            connection.execute(FLAG, [backlog > THRESHOLD])
            connection.commit()
            count += len(rows)
    return count


def _one(connection: Connection, task: Task, judged: Any) -> None:
    for reject in judged.rejects:
        payload = json.dumps(json.loads(task.payload))
        connection.execute(LETTER, [task.id, reject.reason, reject.rule_id, payload, reject.error_msg])
        connection.execute(MARK, [task.id])
        return
    for _, record in judged.bars + judged.articles:
        connection.execute(*_upsert(record))
    connection.execute(DONE, [task.id])


def _upsert(record: Bar | Article) -> tuple[str, list[Any]]:
    if isinstance(record, Bar):
        names = "symbol trade_date open high low close volume vwap adj_close source first_seen_time content_hash"
        return ONE_BAR, [getattr(record, name) for name in names.split()]
    names = "url_canonical source_domain publisher_time first_seen_time language title text_normalized content_hash"
    return ONE_ARTICLE, [*(getattr(record, name) for name in names.split()), record.symbols]


def raw(url: str) -> int:
    """Ship the payloads here, upsert and delete in sets, commit: nobody looks at anything."""
    count = 0
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            with connection.pipeline():
                connection.execute("BEGIN")
                found = connection.execute(FETCH, [BATCH], binary=True)
            ids = [row[0] for row in found]
            with connection.pipeline():
                if ids:
                    connection.execute(ALL_BARS, [ids])
                    connection.execute(ALL_ARTICLES, [ids])
                    connection.execute("DELETE FROM task_q WHERE id = ANY(%s)", [ids])
                connection.execute("COMMIT")
            if not ids:
                return count
            count += len(ids)
