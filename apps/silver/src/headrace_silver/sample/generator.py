"""A sample of a Vietnamese market: bars of HOSE-like symbols and articles about them, with bad rows that say so.

Prices walk at random inside the daily limit of ±7 % and stand on ticks; now and then a day is missing or without trade,
a bar is corrected afterwards, an article comes again with more in it or under another address. A bad row carries the
rule that it breaks in `_breaks`, which no rule looks at. The same plan gives the same sample.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from itertools import accumulate, product
from random import Random
from typing import Any

from headrace.errors import CallerError
from headrace_silver.market.calendar import CLOSES_AT, last_trading_days
from headrace_silver.market.price_bands import HOSE, tick
from headrace_silver.records.rule_checks import VIETNAM
from headrace_silver.records.values import SA_ARTICLE, TA_BAR, UNKNOWN_TASK_TYPE
from headrace_silver.sample import words as words
from headrace_silver.sample.faults import FAULTS, LABEL, UNKNOWN_KINDS

LIMIT = 0.07
DAILY_MOVE = 0.018
ODD_SHARE = 0.02
CORRECTED_SHARE = 0.005
MISSING_SHARE = 0.003
QUIET_SHARE = 0.004
AGAIN_SHARE = 0.02
COPY_SHARE = 0.01
DONG_PER_DOLLAR = 25_400
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SYMBOLS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """What to make. `bad` is a share of all rows for every label, or shares by label; `until` is the last day.

    `loose`: also rows that only JSON can say.
    """

    until: date
    symbols: int = 100
    days: int = 250
    articles: int = 2_000
    bad: float | Mapping[str, float] = 0.05
    seed: int = 1
    loose: bool = True

    def shares(self, kind: str) -> dict[str, float]:
        """How much of a kind is to be bad, by label."""
        labels = FAULTS[kind].labels(self.loose)
        if isinstance(self.bad, Mapping):
            return {label: share for label in labels if (share := self.bad.get(label, 0.0)) > 0}
        return dict.fromkeys(labels, self.bad / len(labels)) if self.bad > 0 else {}


@dataclass(frozen=True, slots=True)
class Sample:
    """One task to put. `breaks` is the label of a bad one."""

    kind: str
    payload: Any
    breaks: str | None = None


@dataclass(slots=True)
class _Listed:
    """A symbol on its way through the days. `unit` is how many dong one unit of its quoted price is."""

    symbol: str
    price: float
    lot_mean: float
    source: str
    unit: float = 1.0
    stated: dict[str, Any] = field(default_factory=dict)
    odd: bool = False


def known_labels() -> list[str]:
    return list(dict.fromkeys(label for faults in FAULTS.values() for label in faults.labels(loose=True)))


def sample(plan: SamplePlan) -> Iterator[Sample]:
    """The bars day by day, then corrections, then the articles."""
    _check(plan)
    chance = Random(plan.seed)
    listed = _listed(plan, chance)
    yield from _broken(_bars(plan, listed, chance), TA_BAR, plan, chance)
    yield from _broken(_articles(plan, listed, chance), SA_ARTICLE, plan, chance)


def _check(plan: SamplePlan) -> None:
    if not 0 <= plan.symbols <= SYMBOLS_MAX:
        raise CallerError(f"--symbols is from 0 to {SYMBOLS_MAX:,}")
    shares = plan.bad if isinstance(plan.bad, Mapping) else {"": plan.bad}
    unknown = [label for label in shares if label and label not in known_labels()]
    if unknown:
        raise CallerError(f"nothing breaks {', '.join(unknown)}", f"one of {', '.join(known_labels())}")
    if any(not 0 <= share <= 1 for share in shares.values()) or sum(shares.values()) > 1:
        raise CallerError("--bad is a share from 0 to 1", "--bad 0.05, or --bad ta_price=0.01 for one rule")


def _broken(good: Iterator[Sample], kind: str, plan: SamplePlan, chance: Random) -> Iterator[Sample]:
    """Break the chosen share; a row that is bad by itself stays as it is."""
    shares = plan.shares(kind)
    labels, limits = list(shares), list(accumulate(shares.values()))
    total = limits[-1] if limits else 0.0
    for each in good:
        if each.breaks is not None or chance.random() >= total:
            yield each
            continue
        label = chance.choices(labels, cum_weights=limits)[0]
        payload = FAULTS[kind].break_one(label, each.payload, plan.loose, chance)
        yield Sample(UNKNOWN_KINDS[kind] if label == UNKNOWN_TASK_TYPE else kind, payload, label)


def _listed(plan: SamplePlan, chance: Random) -> list[_Listed]:
    """The symbols: the well known first, then made-up ones, and a few that the default pattern refuses."""
    odd_wanted = plan.shares(TA_BAR).get("ta_symbol", 0.0) > 0
    odd = words.ODD_TICKERS[: math.ceil(plan.symbols * ODD_SHARE)] if odd_wanted else ()
    made_up = ("".join(letters) for letters in product(ALPHABET, repeat=3))
    names = list(dict.fromkeys([*words.TICKERS[: plan.symbols], *odd]))
    known = set(words.TICKERS)
    while len(names) < plan.symbols:
        name = next(made_up)
        if name not in known:
            names.append(name)
    # The odd ones take the places of the last.
    names = [*[name for name in names if name not in odd][: plan.symbols - len(odd)], *odd]
    return [_list_one(place, name, name in odd, chance) for place, name in enumerate(names)]


def _list_one(place: int, symbol: str, odd: bool, chance: Random) -> _Listed:
    price = _on_tick(symbol, 10 ** chance.uniform(3.7, 5.1))
    listed = _Listed(symbol, price, 10 ** chance.uniform(2, 5), chance.choice(words.SOURCES), odd=odd)
    if place % 100 == 40:
        listed.unit, listed.stated, listed.source = DONG_PER_DOLLAR, {"currency": "USD"}, "dollar-quotes"
    elif place % 30 == 20:
        listed.unit, listed.stated = 1_000, {"currency": "VND", "price_multiplier": 1_000}
    elif listed.source != "vendor-csv":
        listed.stated = {"currency": "VND"}
    return listed


def _bars(plan: SamplePlan, listed: list[_Listed], chance: Random) -> Iterator[Sample]:
    corrected: list[Sample] = []
    for day in last_trading_days(plan.until, plan.days):
        for each in listed:
            bar = _bar(each, day, chance)
            drawn = chance.random()
            if drawn < MISSING_SHARE and plan.bad:
                continue
            yield Sample(TA_BAR, {**bar, LABEL: "ta_symbol"}, "ta_symbol") if each.odd else Sample(TA_BAR, bar)
            if drawn > 1 - CORRECTED_SHARE and not each.odd and bar["low"] < bar["close"]:
                corrected.append(Sample(TA_BAR, {**bar, "close": bar["low"], "source": "correction"}))
    yield from corrected


def _bar(each: _Listed, day: date, chance: Random) -> dict[str, Any]:
    """The next day of a symbol; moves its price."""
    symbol, before = each.symbol, each.price
    if chance.random() < QUIET_SHARE:
        opened = high = low = close = before
        volume = 0
    else:
        floor, ceiling = _floor(symbol, before), _ceiling(symbol, before)
        opened, close, one, other = (
            min(max(_on_tick(symbol, before * (1 + chance.gauss(0.0002, DAILY_MOVE))), floor), ceiling)
            for _ in range(4)
        )
        high, low = max(opened, close, one, other), min(opened, close, one, other)
        volume = 100 * max(1, int(each.lot_mean * math.exp(chance.gauss(0, 0.6))))
    each.price = close
    quoted = [_quoted(price, each.unit) for price in (opened, high, low, close, (opened + high + low + close) / 4)]
    seen = datetime.combine(day, time(15, chance.randrange(5, 60), chance.randrange(60)), VIETNAM)
    return {
        "symbol": symbol,
        "trade_date": day.isoformat(),
        **dict(zip(("open", "high", "low", "close", "vwap"), quoted, strict=True)),
        "volume": volume,
        "adj_close": quoted[3],
        **each.stated,
        "source": each.source,
        "first_seen_time": seen.isoformat(),
        "content_hash": _hash(f"{symbol} {day} {quoted}"),
    }


def _quoted(price: float, unit: float) -> float:
    return round(price / unit, 4) if unit != 1 else float(price)


def _on_tick(symbol: str, price: float) -> float:
    step = tick(HOSE, symbol, price)
    return max(step, round(price / step) * step)


def _floor(symbol: str, before: float) -> float:
    step = tick(HOSE, symbol, before * (1 - LIMIT))
    return min(before, max(step, math.ceil(before * (1 - LIMIT) / step) * step))


def _ceiling(symbol: str, before: float) -> float:
    step = tick(HOSE, symbol, before * (1 + LIMIT))
    return max(before, math.floor(before * (1 + LIMIT) / step) * step)


def _articles(plan: SamplePlan, listed: list[_Listed], chance: Random) -> Iterator[Sample]:
    days = last_trading_days(plan.until, max(plan.days, 1))
    usual = [each.symbol for each in listed if not each.odd] or list(words.TICKERS)
    for number in range(plan.articles):
        article = _article(number, chance.choice(days), plan.until, usual, chance)
        yield Sample(SA_ARTICLE, article)
        drawn = chance.random()
        if drawn < AGAIN_SHARE:
            more = {"hype_raw": 0.5, "hype_crowd": 0.25, "hype_elitist": 0.75, "account_weights_applied": True}
            yield Sample(SA_ARTICLE, {**article, **more})
        elif drawn > 1 - COPY_SHARE:
            yield Sample(SA_ARTICLE, {**article, "url_canonical": f"{article['url_canonical']}?ref=copy"})


def _article(number: int, day: date, until: date, symbols: list[str], chance: Random) -> dict[str, Any]:
    language = "vi" if chance.random() < 0.72 else "en"
    about = chance.sample(symbols, min(len(symbols), chance.choice((0, 1, 1, 1, 2, 3))))
    titles = words.TITLES[language] if about else words.MACRO_TITLES[language]
    domain = chance.choice(words.DOMAINS)
    published = datetime.combine(day, time(chance.randrange(6, 22), chance.randrange(60)), VIETNAM)
    if day == until and published.time() >= CLOSES_AT:
        # The last day may be today, and its session is just over: nothing is published after that.
        published = published.replace(hour=published.hour - 9)
    text = _text(language, chance)
    article: dict[str, Any] = {
        "url_canonical": f"https://{domain}/{day:%Y/%m}/{'-'.join(about).lower() or 'thi-truong'}-{number}.html",
        "source_domain": domain,
        "publisher_time": published.isoformat(),
        "first_seen_time": (published + timedelta(minutes=chance.randrange(1, 45))).isoformat(),
        "language": language if chance.random() < 0.97 else chance.choice(("fr", "zh", "")),
        "title": chance.choice(titles).format(symbol=about[0] if about else "", day=f"{day:%d/%m}"),
        "text_normalized": text,
        "content_hash": _hash(text + str(number)),
        "author": chance.choice(words.AUTHORS),
        "topic_tags": sorted(chance.sample(words.TAGS[language], 2)),
    }
    if about:
        article["symbols"] = about
    if chance.random() < 0.5:
        article["hype_raw"] = round(chance.random(), 3)
    return article


def _text(language: str, chance: Random) -> str:
    chosen = chance.sample(words.SENTENCES[language], chance.randrange(3, 7))
    figures = {"percent": f"{chance.uniform(0.2, 6.9):.1f}", "volume": f"{chance.randrange(50, 9000) * 1000:,}"}
    return " ".join(chosen).format(**figures)


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
