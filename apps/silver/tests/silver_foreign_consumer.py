"""Somebody else's consumer of the same queue: one batch, task by task, under the same lock; it knows no headrace."""

from __future__ import annotations

import json
import re
from typing import Any

import psycopg

LOCK = "silver_consume"
TAKE = """
WITH taken AS (SELECT id FROM task_q WHERE status = 'ready' ORDER BY priority, first_seen LIMIT %s
               FOR UPDATE SKIP LOCKED)
SELECT task_q.id, task_type, payload FROM task_q JOIN taken USING (id)
"""
WRITE_BAR = """
INSERT INTO ta_silver (symbol, trade_date, open, high, low, close, volume)
VALUES (%(symbol)s, %(trade_date)s, %(open)s, %(high)s, %(low)s, %(close)s, %(volume)s)
ON CONFLICT (symbol, trade_date) DO UPDATE SET open = EXCLUDED.open, high = EXCLUDED.high, low = EXCLUDED.low,
  close = EXCLUDED.close, volume = EXCLUDED.volume, ingest_time = now()
"""
WRITE_ARTICLE = """
INSERT INTO sa_silver (url_canonical, source_domain, publisher_time, first_seen_time, text_normalized, content_hash)
VALUES (%(url_canonical)s, %(source_domain)s, %(publisher_time)s, now(), %(text_normalized)s, %(content_hash)s)
ON CONFLICT (url_canonical) DO UPDATE SET content_hash = EXCLUDED.content_hash, ingest_time = now()
"""
LETTER = """
INSERT INTO task_q_dlq (task_id, reason, rule_id, payload, error_msg, created_at)
VALUES (%s, %s, %s, %s::jsonb, %s, now())
"""
FLAG = """
INSERT INTO control_flags (name, value, updated_at)
VALUES ('SCRAPE_SLOW', (SELECT count(*) > 10000 FROM task_q WHERE status = 'ready'), now())
ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value, updated_at = now()
"""


def consume(url: str, size: int) -> int | None:
    """How many tasks it took; None if somebody else is at work."""
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT pg_try_advisory_lock(hashtext(%s))", (LOCK,)).fetchone()
        if not (found and found[0]):
            return None
        try:
            tasks = connection.execute(TAKE, (size,)).fetchall()
            for task, kind, payload in tasks:
                _one(connection, task, kind, payload)
            connection.execute(FLAG)
            connection.commit()
            return len(tasks)
        finally:
            connection.execute("SELECT pg_advisory_unlock(hashtext(%s))", (LOCK,))
            connection.commit()


def _one(connection: psycopg.Connection[tuple[Any, ...]], task: int, kind: str, payload: dict[str, Any]) -> None:
    refused: tuple[str, str | None] | None = None
    if kind == "ta.bar":
        refused = None if re.fullmatch("[A-Z]{3,7}", payload["symbol"]) else ("sanity_fail", "symbol")
    elif kind != "sa.article":
        refused = ("unknown_task_type", None)
    if refused:
        connection.execute(LETTER, (task, *refused, json.dumps(payload), "refused"))
        connection.execute("UPDATE task_q SET status = 'dlq', last_attempt = now() WHERE id = %s", (task,))
        return
    connection.execute(WRITE_BAR if kind == "ta.bar" else WRITE_ARTICLE, payload)
    connection.execute("DELETE FROM task_q WHERE id = %s", (task,))
