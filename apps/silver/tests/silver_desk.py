"""What tests of the tools do to a store: put records, consume them, look at what stands in the tables."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headrace_silver.queue.consumer import ConsumedTasks, ConsumeSettings, Mode, TaskConsumer
from headrace_silver.queue.producer import put_tasks
from headrace_silver.records.record_files import Incoming
from headrace_silver.records.rules import RuleSettings
from headrace_silver.records.values import TA_BAR
from headrace_silver.stores.silver_store import SilverStore, is_sqlite


def bar(symbol: str = "VNM", trade_date: str = "2024-01-02", **changes: Any) -> dict[str, Any]:
    prices = {"open": 66_000, "high": 67_000, "low": 65_500, "close": 66_500, "volume": 1_000}
    return {"symbol": symbol, "trade_date": trade_date, **prices, **changes}


def article(number: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "url_canonical": f"https://tin.example/{number}",
        "source_domain": "tin.example",
        "publisher_time": "2024-01-02T08:00:00+07:00",
        "first_seen_time": "2024-01-02T08:10:00+07:00",
        "title": "Một phiên yên ắng",
        "text_normalized": "Thanh khoản thấp. " * 10,
        "content_hash": f"hash {number}",
        **changes,
    }


def put(store: SilverStore, payloads: Iterable[Any], kind: str = TA_BAR) -> None:
    put_tasks(store, [Incoming(kind, json.dumps(payload)) for payload in payloads])


def consume(store: SilverStore, pattern: str | None = None) -> ConsumedTasks:
    rules = RuleSettings(pattern) if pattern else RuleSettings()
    return TaskConsumer(store, ConsumeSettings(rules=rules), Mode.DRAIN, line=lambda _: None).run()


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    """The answer of the database itself, past the store."""
    if is_sqlite(url):
        import apsw

        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        try:
            return list(connection.execute(query))
        finally:
            connection.close()
    import psycopg

    with psycopg.connect(url, autocommit=True) as server:
        found = server.execute(query.encode())
        return found.fetchall() if found.description else []


def lines(path: Path, records: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), "utf-8")
    return path
