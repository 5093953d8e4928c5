"""The check behind each rule: one record against the yardstick of its batch, no query.

What could not be read is in the record as a value that fails its check (see `payloads`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from headrace_silver.records.payloads import NO_FIRST_SEEN_TIME
from headrace_silver.records.symbol_patterns import symbol_pattern
from headrace_silver.records.values import Article, Bar

TEXT_CHARS_MIN = 120
PUBLISHED_AHEAD_MAX = timedelta(minutes=5)
SEEN_EARLY_MAX = timedelta(days=1)
# Vietnam has kept +07:00 without daylight saving since 1975 and only the present is asked for: an offset is exact
# and needs no time zone database, which slim images and Windows do not have.
VIETNAM = timezone(timedelta(hours=7), "Asia/Ho_Chi_Minh")

_INFINITE = math.inf
# Blanks and control characters, in Unicode's sense; everything else may stand in an address.
_BLANK = r"\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_PLAIN_URL = re.compile(r"https?://[a-z0-9.-]+(?:/[!-~]*)?").fullmatch
_URL = re.compile(
    rf"https?://(?:[^{_BLANK}/?#@]*@)?(?:\[[0-9a-f:.]+\]|[^{_BLANK}/?#@:\[\]]+)(?::[0-9]*)?(?:[/?#][^{_BLANK}]*)?",
    re.IGNORECASE,
).fullmatch


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What the records of one batch are measured against: `matches_symbol` from end to end by `symbol_pattern`, `today`
    in Vietnam, and `latest`, the last moment at which an article may claim to have been published."""

    symbol_pattern: str
    matches_symbol: Callable[[str], bool]
    today: date
    latest: datetime

    @classmethod
    def at(cls, now: datetime, pattern: str) -> Yardstick:
        """The yardstick of a batch that is judged at `now`, which is aware."""
        latest = now.astimezone(UTC) + PUBLISHED_AHEAD_MAX
        return cls(pattern, symbol_pattern(pattern).matches, now.astimezone(VIETNAM).date(), latest)


def is_symbol(value: Any, yardstick: Yardstick) -> bool:
    """Whether a value is a symbol: text, not empty, matching from end to end."""
    return type(value) is str and value != "" and yardstick.matches_symbol(value)


def ta_symbol(bar: Bar, yardstick: Yardstick) -> bool:
    """An unreadable symbol is empty."""
    return bar.symbol != "" and yardstick.matches_symbol(bar.symbol)


def ta_trade_date(bar: Bar, yardstick: Yardstick) -> bool:
    """An unreadable date is the last of all days."""
    return bar.trade_date <= yardstick.today


def ta_price(bar: Bar, yardstick: Yardstick) -> bool:
    """An unreadable price is NaN, which compares with nothing."""
    return (
        0 <= bar.open < _INFINITE
        and 0 <= bar.high < _INFINITE
        and 0 <= bar.low < _INFINITE
        and 0 <= bar.close < _INFINITE
    )


def ta_price_relation(bar: Bar, yardstick: Yardstick) -> bool:
    """High above and low below both ends of the day; that high is not below low follows."""
    return bar.low <= bar.open <= bar.high and bar.low <= bar.close <= bar.high


def ta_volume(bar: Bar, yardstick: Yardstick) -> bool:
    """An unreadable volume is −1."""
    return bar.volume >= 0


def ta_zero_volume(bar: Bar, yardstick: Yardstick) -> bool:
    """A day without trades is a dot."""
    return bar.volume != 0 or bar.open == bar.high == bar.low == bar.close


def ta_currency(bar: Bar, yardstick: Yardstick) -> bool:
    """None is not stated; an unreadable currency is empty."""
    currency = bar.currency
    return currency is None or (currency != "" and not currency.isspace())


def sa_url(article: Article, yardstick: Yardstick) -> bool:
    """Nearly every address is plain, and the plain pattern, which accepts less, costs a third of the full one."""
    return _PLAIN_URL(article.url_canonical) is not None or _URL(article.url_canonical) is not None


def sa_publisher_time(article: Article, yardstick: Yardstick) -> bool:
    """An unreadable time is the last of all."""
    return article.publisher_time <= yardstick.latest


def sa_first_seen(article: Article, yardstick: Yardstick) -> bool:
    """A difference of two times always exists; a time minus a day need not."""
    seen = article.first_seen_time
    return seen is not NO_FIRST_SEEN_TIME and article.publisher_time - seen <= SEEN_EARLY_MAX


def sa_language(article: Article, yardstick: Yardstick) -> bool:
    """Never fails: what is neither vi nor en was read as unknown."""
    return True


def sa_text(article: Article, yardstick: Yardstick) -> bool:
    """Characters, not bytes."""
    return len(article.text_normalized) >= TEXT_CHARS_MIN


def sa_content_hash(article: Article, yardstick: Yardstick) -> bool:
    """An unreadable hash is empty."""
    digest = article.content_hash
    return digest != "" and not digest.isspace()


def sa_symbols(article: Article, yardstick: Yardstick) -> bool:
    """None and an empty list are articles about the market as a whole."""
    return not article.symbols or all(is_symbol(symbol, yardstick) for symbol in article.symbols)


def sa_source_domain(article: Article, yardstick: Yardstick) -> bool:
    """An unreadable domain is empty."""
    domain = article.source_domain
    return domain != "" and not domain.isspace()
