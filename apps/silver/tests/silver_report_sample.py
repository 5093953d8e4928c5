"""Reports to look at: of a small market with hostile words in it, and of a large one in trouble."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from silver_desk import article, consume, put
from silver_quality_sample import LENGTH, NOW, STOPPED_AFTER, fill, make

from headrace_silver.market import calendar
from headrace_silver.quality.assessment import assess
from headrace_silver.quality.values import ArticleQuality, Quality, ReportSettings, SymbolQuality
from headrace_silver.records.values import SA_ARTICLE
from headrace_silver.stores.silver_store import open_store

TITLE = "<script>alert('x')</script> Cổ phiếu \u202e tăng trần"
HOSTILE = "[red]x[/red]\x1b[2J<img src=x onerror=alert(1)>"


def small(folder: Path) -> Quality:
    """The sample in an embedded store, with two articles of a hostile source."""
    url = f"sqlite:///{folder / 'silver.db'}"
    with closing(open_store(url)) as store:
        store.create()
        fill(store, url, make())
        times = {"publisher_time": "2025-03-10T02:00:00Z", "first_seen_time": "2025-03-10T02:30:00Z"}
        copies = {"source_domain": HOSTILE, "title": TITLE, "content_hash": "one", **times}
        put(store, [article(number, **copies) for number in (70, 71)], SA_ARTICLE)
        consume(store)
        return assess(store, NOW, ReportSettings(LENGTH, STOPPED_AFTER, "HOSE"))


def large(symbols: int, days: int) -> Quality:
    """A market in which every symbol has trouble on every fifth day."""
    window = calendar.last_trading_days(calendar.last_closed_day(NOW), days)
    cells = ("pmprw" * days)[:days]
    entries = [
        SymbolQuality(f"S{number:04}", "HOSE", window[0], window[-1], 0, False, cells, 9, 3, 4, 0, {"ta_price": 2})
        for number in range(symbols)
    ]
    return Quality(NOW, ReportSettings(days), window, entries, [], [], ArticleQuality(), None, [])
