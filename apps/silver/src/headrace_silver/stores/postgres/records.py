"""Records and rejects as PostgreSQL gets them: which statement writes them, and their columns packed as its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from headrace_silver.queue.isolation import Folded
from headrace_silver.records.folds import fold_articles, fold_bars
from headrace_silver.records.values import Article, Bar, Judged
from headrace_silver.stores.postgres.binary_arrays import Packed, booleans, dates, floats, integers, lists, texts, times
from headrace_silver.stores.postgres.statements import bars_statement, statement

Columns = dict[str, Callable[[Any], Packed]]
Part = tuple[Any, dict[str, Packed]]

BAR_COLUMNS: Columns = {
    "symbol": texts,
    "trade_date": dates,
    **dict.fromkeys(("open", "high", "low", "close"), floats),
    "volume": integers,
    **dict.fromkeys(("vwap", "adj_close"), floats),
    "currency": texts,
    "price_multiplier": floats,
    "source": texts,
    "first_seen_time": times,
    "content_hash": texts,
}
ARTICLE_COLUMNS: Columns = {
    **dict.fromkeys(("url_canonical", "source_domain"), texts),
    **dict.fromkeys(("publisher_time", "first_seen_time"), times),
    **dict.fromkeys(("language", "title", "text_normalized", "content_hash"), texts),
    "symbols": lists,
    "author": texts,
    "topic_tags": lists,
    **dict.fromkeys(("hype_raw", "hype_crowd", "hype_elitist"), floats),
    "account_weights_applied": booleans,
}
REJECT_COLUMNS: Columns = {"task_id": integers, **dict.fromkeys(("reason", "rule_id", "error_msg"), texts)}


@dataclass(slots=True)
class BatchDraft:
    """What a judged batch will write, folded and packed as far as somebody had the time."""

    judged: Judged
    bars: list[Folded[Bar]]
    articles: list[Folded[Article]]
    _parts: list[Part] | None = None

    @classmethod
    def of(cls, judged: Judged) -> BatchDraft:
        return cls(judged, fold_bars(judged.bars), fold_articles(judged.articles))

    def parts(self, keeps: bool) -> list[Part]:
        """Every statement with its values; a `ValueError` if one cannot be packed."""
        if self._parts is None:
            self._parts = [*bar_parts(self.bars, keeps), *article_parts(self.articles)]
        return self._parts


def bar_parts(records: Sequence[Folded[Bar]], keeps: bool) -> list[Part]:
    """Statement and values of each group of bars that state the same; normally one group."""
    groups: dict[tuple[bool, bool], list[Bar]] = {}
    for _, bar in records:
        groups.setdefault((bar.currency is not None, bar.price_multiplier is not None), []).append(bar)
    return [(bars_statement(*stated, keeps), packed(group, BAR_COLUMNS)) for stated, group in groups.items()]


def article_parts(records: Sequence[Folded[Article]]) -> list[Part]:
    articles = [article for _, article in records]
    return [(statement("consume_articles"), packed(articles, ARTICLE_COLUMNS))] if articles else []


def packed(records: Sequence[Any], columns: Columns) -> dict[str, Packed]:
    rows = map(attrgetter(*columns), records)
    return {name: pack(values) for (name, pack), values in zip(columns.items(), zip(*rows, strict=True), strict=True)}
