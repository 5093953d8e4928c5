"""Several records of one natural key in a batch become one, as if they had been applied one after another.

An upsert that meets a key twice in one statement is refused, and one statement per record is slow. Folding is
possible because every column of the upserts is *associative*: to put `a` and then `b` over a stored row gives what
putting `a` folded with `b` over it gives, and a row that does not exist yet is one that states nothing. So one
folded record is right for a new row and for an existing one, which nobody knows beforehand:

- overwritten columns: the last record's; `currency` and `price_multiplier`: the last that states one, None if none
  does (a new row then gets the default, an existing row keeps its own);
- times that keep the oldest: the smallest;
- COALESCE columns: the last that is not None; lists: the last that is not empty, else the first record's;
- `language`: the last vi or en, else the first that states anything;
- `source_domain`: the first record's (an existing row keeps its own).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import TypeVar

from headrace_silver.records.payload_values import LANGUAGES
from headrace_silver.records.values import Article, Bar

Record = TypeVar("Record")
Stated = TypeVar("Stated")


def fold_bars(bars: Iterable[tuple[int, Bar]]) -> list[tuple[tuple[int, ...], Bar]]:
    """One bar per symbol and day with the ids of the tasks behind it, in the order in which keys first appear."""
    return _fold(bars, lambda bar: (bar.symbol, bar.trade_date), bar_over)


def fold_articles(articles: Iterable[tuple[int, Article]]) -> list[tuple[tuple[int, ...], Article]]:
    """One article per URL with the ids of the tasks behind it, in the order in which URLs first appear."""
    return _fold(articles, lambda article: article.url_canonical, article_over)


def bar_over(old: Bar, new: Bar) -> Bar:
    """`new` applied after `old`."""
    return replace(
        new,
        currency=_latest(old.currency, new.currency),
        price_multiplier=_latest(old.price_multiplier, new.price_multiplier),
        first_seen_time=min(old.first_seen_time, new.first_seen_time),
    )


def article_over(old: Article, new: Article) -> Article:
    """`new` applied after `old`."""
    return Article(
        url_canonical=old.url_canonical,
        source_domain=old.source_domain,
        publisher_time=min(old.publisher_time, new.publisher_time),
        first_seen_time=min(old.first_seen_time, new.first_seen_time),
        language=new.language if new.language in LANGUAGES else old.language or new.language,
        title=_latest(old.title, new.title),
        text_normalized=new.text_normalized,
        content_hash=new.content_hash,
        symbols=new.symbols or old.symbols,
        author=_latest(old.author, new.author),
        topic_tags=new.topic_tags or old.topic_tags,
        hype_raw=_latest(old.hype_raw, new.hype_raw),
        hype_crowd=_latest(old.hype_crowd, new.hype_crowd),
        hype_elitist=_latest(old.hype_elitist, new.hype_elitist),
        account_weights_applied=_latest(old.account_weights_applied, new.account_weights_applied),
    )


def _latest(old: Stated | None, new: Stated | None) -> Stated | None:
    return old if new is None else new


def _fold(
    records: Iterable[tuple[int, Record]],
    key_of: Callable[[Record], Hashable],
    over: Callable[[Record, Record], Record],
) -> list[tuple[tuple[int, ...], Record]]:
    folded: dict[Hashable, tuple[tuple[int, ...], Record]] = {}
    for task_id, record in records:
        key = key_of(record)
        before = folded.get(key)
        folded[key] = ((task_id,), record) if before is None else ((*before[0], task_id), over(before[1], record))
    return list(folded.values())
