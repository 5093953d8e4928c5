"""How good the silver layer is: fresh, complete, valid, and how often it was revised.

The database groups and compares; what comes back is one row per symbol, rule and day, or source. So the cost in memory
is that of the answer, whatever the tables hold.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from headrace.errors import CallerError, SchemaMismatch
from headrace_silver.market import calendar, price_bands
from headrace_silver.market.corporate_actions import adjusted
from headrace_silver.market.market_tables import Market, read_market
from headrace_silver.market.notes import Note
from headrace_silver.market.price_bands import Candidate
from headrace_silver.market.symbol_shapes import suggestion
from headrace_silver.quality.values import (
    ABSENT,
    DAYS_MAX,
    MISSING,
    NOTHING,
    PRESENT,
    REJECTED,
    REVISED,
    WARNED,
    ArticleQuality,
    BandBreak,
    ClosedLetters,
    Copies,
    NewsSource,
    Quality,
    RejectDay,
    Rejection,
    ReportSettings,
    SymbolQuality,
)
from headrace_silver.records.payload_values import date_of
from headrace_silver.records.rule_checks import VIETNAM
from headrace_silver.stores.silver_store import FLAG, SilverStore

LETTERS_MAX = 100_000
CANDIDATES_MAX = 100_000
SOURCES_MAX = 50
COPIES_MAX = 50
CLOSED_MAX = 200
SUGGESTED_AFTER_DAYS_MAX = 30
# How many trading days before the window may hold the price that its first bar is compared with.
_REFERENCE_DAYS = price_bands.SUSPENDED_DAYS + 15
# The same in days of the calendar, holidays included, and then some.
REFERENCE_AGE_MAX = timedelta(days=120)


@dataclass(frozen=True, slots=True)
class Known:
    """A symbol and what is known of it without looking at its bars."""

    symbol: str
    first_day: date
    last_day: date
    behind: int


@dataclass(slots=True)
class SymbolDays:
    """What the database says about the days of the symbols, as days since the first of the window."""

    present: Mapping[str, Sequence[int]]
    revised: Mapping[str, Sequence[int]]
    revisions: Mapping[str, int]
    ticks: Mapping[str, Sequence[int]]
    breaks: Sequence[BandBreak]
    market: Market
    letters: Mapping[str, Mapping[str, int]]
    rejections: Mapping[str, Mapping[date, Rejection]]
    band_days: Mapping[str, set[int]] = field(default_factory=dict)
    notes: Sequence[Note] = ()


def assess(store: SilverStore, now: datetime, settings: ReportSettings) -> Quality:
    """Look at everything in the window that ends with the last closed trading day."""
    if not 1 <= settings.days <= DAYS_MAX:
        raise CallerError(f"a report looks at 1 to {DAYS_MAX} trading days, not {settings.days}", "--days 250")
    days = calendar.last_trading_days(calendar.last_closed_day(now), settings.days)
    since = datetime.combine(days[0], time.min, VIETNAM).astimezone(UTC)
    known = known_symbols(store, now)
    market = read_market(store, days[0] - REFERENCE_AGE_MAX, days[-1], settings.exchange)
    found = _found(store, known, days, since, market)
    symbols = [_symbol_quality(entry, found, days, settings) for entry in known]
    flag = store.rows("report_flag", {"name": FLAG})
    rejects = _kept(store, "report_rejects", {"first": days[0], "last": calendar.market_date(now)}) or []
    return Quality(
        made_at=now.astimezone(UTC),
        settings=settings,
        days=days,
        symbols=symbols,
        band_breaks=found.breaks,
        rejects=[RejectDay(day, rule or reason, count) for day, reason, rule, count in rejects],
        closed=[
            ClosedLetters(*row) for row in _kept(store, "report_closed", {"since": since, "most": CLOSED_MAX}) or ()
        ],
        articles=_articles(store, since),
        slow=flag[0][0] if flag else None,
        notes=[*calendar.doubts(days[0], days[-1]), *_notes(symbols, found, days, settings)],
    )


def known_symbols(store: SilverStore, now: datetime) -> list[Known]:
    """Every symbol that has a bar, and how many closed trading days have passed since its last one."""
    last_closed = calendar.last_closed_day(now)
    found = store.rows("report_symbols", {"today": calendar.market_date(now)})
    # Many symbols share a last day: counting the days between is done once for each.
    behind: dict[date, int] = {}
    known = []
    for symbol, first_day, last_day in found:
        if last_day is None:
            continue
        if last_day not in behind:
            behind[last_day] = len(calendar.trading_days(last_day + timedelta(days=1), last_closed))
        known.append(Known(symbol, first_day, last_day, behind[last_day]))
    return sorted(known, key=lambda entry: entry.symbol)


def _found(
    store: SilverStore, known: Sequence[Known], days: Sequence[date], since: datetime, market: Market
) -> SymbolDays:
    window = {"first": days[0], "last": days[-1]}
    revised = _kept(store, "report_revised", window)
    letters, rejections = _letters(store, since)
    breaks, looked_at_all = _breaks(store, days, market)
    band_days: defaultdict[str, set[int]] = defaultdict(set)
    for entry in breaks:
        band_days[entry.symbol].add((entry.day - days[0]).days)
    notes = [] if revised is not None else [Note("not_kept")]
    if not looked_at_all:
        notes.append(Note("odd", {"count": CANDIDATES_MAX}))
    return SymbolDays(
        present=dict(store.rows("report_days", window)),
        revised={symbol: offsets for symbol, _, offsets in revised or ()},
        revisions={symbol: count for symbol, count, _ in revised or ()},
        ticks=dict(store.rows("report_ticks", {**window, "steps": _steps(known, days, market)})),
        breaks=breaks,
        market=market,
        letters=letters,
        rejections=rejections,
        band_days=band_days,
        notes=notes,
    )


def _letters(
    store: SilverStore, since: datetime
) -> tuple[Mapping[str, Mapping[str, int]], Mapping[str, Mapping[date, Rejection]]]:
    """Of each symbol how many bars each rule refused, and the last refusal of each day."""
    letters: defaultdict[str, Counter[str]] = defaultdict(Counter)
    rejections: defaultdict[str, dict[date, Rejection]] = defaultdict(dict)
    for symbol, rule, said, count, letter in store.rows("report_letters", {"since": since, "most": LETTERS_MAX}):
        letters[symbol][rule] += count
        day = date_of(said)
        if day is None:
            continue
        # A symbol in small letters is a bar of this symbol that its rule refused.
        days = rejections[symbol.strip().upper()]
        if day not in days or days[day].letter < letter:
            days[day] = Rejection(rule, letter)
    return letters, rejections


def suggested_pattern(store: SilverStore, now: datetime, pattern: str) -> Note | None:
    """What to say if the pattern refused symbols of late that look real."""
    letters, _ = _letters(store, now - timedelta(days=SUGGESTED_AFTER_DAYS_MAX))
    return suggestion(_by_pattern(letters), pattern)


def _by_pattern(letters: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {symbol: rules["ta_symbol"] for symbol, rules in letters.items() if "ta_symbol" in rules}


def _kept(store: SilverStore, statement: str, values: Mapping[str, object]) -> list[tuple[Any, ...]] | None:
    """From tables of our own, which somebody else's database may not have: None."""
    try:
        return store.rows(statement, values)
    except SchemaMismatch:
        return None


def _steps(known: Iterable[Known], days: Sequence[date], market: Market) -> str:
    """The symbols whose step does not depend on the price, with it, as JSON; one that moved has any exchange's."""
    fixed = {}
    for entry in known:
        exchanges = {market.exchange(entry.symbol, day) for day in (days[0], days[-1])}
        exchange = exchanges.pop() if len(exchanges) == 1 else price_bands.UNKNOWN
        if exchange != price_bands.HOSE or price_bands.is_fund_or_warrant(entry.symbol):
            fixed[entry.symbol] = price_bands.tick(exchange, entry.symbol, 1.0)
    return json.dumps(fixed)


def _breaks(store: SilverStore, days: Sequence[date], market: Market) -> tuple[list[BandBreak], bool]:
    """The bars that left their band, and whether all that looked so were judged."""
    span = calendar.last_trading_days(days[-1], len(days) + _REFERENCE_DAYS)
    values = {"before": span[0], "first": days[0], "last": days[-1], "band": price_bands.BANDS[price_bands.HOSE]}
    candidates = store.rows("report_bands", {**values, "most": CANDIDATES_MAX})
    found = []
    for symbol, day, previous, close, average, low, high in candidates:
        exchange = market.exchange(symbol, day)
        actions = market.actions_between(symbol, previous, day)
        rested = max(0, bisect_left(span, day) - bisect_right(span, previous))
        # UPCoM's reference is the average price, the others' the close; it may be either where nobody knows.
        prices = {price_bands.UPCOM: (average,), price_bands.UNKNOWN: (close, average)}.get(exchange, (close,))
        references = [adjusted(price, actions) for price in prices]
        judged = [
            None if reference is None else Candidate(
                symbol, reference, low, high, rested, market.is_first_day(symbol, day), bool(actions))
            for reference in references
        ]  # fmt: skip
        left = [candidate for candidate in judged if candidate and price_bands.judge_band(exchange, candidate)]
        if len(left) == len(judged):
            found.append(BandBreak(symbol, exchange, day, left[0].reference, low, high))
    return found, len(candidates) < CANDIDATES_MAX


def _symbol_quality(known: Known, found: SymbolDays, days: Sequence[date], settings: ReportSettings) -> SymbolQuality:
    symbol = known.symbol
    present = set(found.present.get(symbol, ()))
    revised = set(found.revised.get(symbol, ()))
    ticks = set(found.ticks.get(symbol, ()))
    bands = found.band_days.get(symbol, set())
    # Adjusted prices lie between the steps day by day: one note says so better than a row full of warnings.
    warned = bands if len(ticks) * 2 > len(present) else bands | ticks
    stopped = known.behind > settings.stopped_after
    until = known.last_day if stopped else days[-1]
    refused = found.rejections.get(symbol, {})
    cells = []
    for day in days:
        offset = (day - days[0]).days
        if offset in present:
            cells.append(WARNED if offset in warned else REVISED if offset in revised else PRESENT)
        else:
            absent = REJECTED if day in refused else MISSING
            cells.append(absent if known.first_day <= day <= until else NOTHING)
    return SymbolQuality(
        symbol=symbol,
        exchange=found.market.exchange(symbol, days[-1]),
        first_day=known.first_day,
        last_day=known.last_day,
        behind=known.behind,
        stopped=stopped,
        cells="".join(cells),
        revisions=found.revisions.get(symbol, 0),
        band_days=len(bands),
        tick_days=len(ticks),
        closed_days=len(present) - sum(cell not in (*ABSENT, NOTHING) for cell in cells),
        rejected=found.letters.get(symbol, {}),
        rejections={day: refused[day] for day, cell in zip(days, cells, strict=True) if cell == REJECTED},
    )


def _articles(store: SilverStore, since: datetime) -> ArticleQuality:
    articles, sources, with_symbols = store.rows("report_articles", {"since": since})[0]
    copies = store.rows("report_copies", {"since": since, "most": COPIES_MAX})
    return ArticleQuality(
        articles=articles,
        sources=sources,
        with_symbols=with_symbols,
        largest=[NewsSource(*row) for row in store.rows("report_sources", {"since": since, "most": SOURCES_MAX})],
        copy_groups=copies[0][6] if copies else 0,
        copies_extra=copies[0][7] if copies else 0,
        copies=[Copies(*row[:6]) for row in copies],
    )


def _notes(
    symbols: Sequence[SymbolQuality], found: SymbolDays, days: Sequence[date], settings: ReportSettings
) -> list[Note]:
    """What a reader should know before believing the figures."""
    notes = [*found.notes, *_calendar_notes(symbols, found, days)]
    assumed = sum(entry.symbol not in found.market.exchanges for entry in symbols)
    if assumed:
        key = "no_exchange" if settings.exchange == price_bands.UNKNOWN else "assumed"
        notes.append(Note(key, {"exchange": settings.exchange, "count": assumed}))
    adjusted = [entry.symbol for entry in symbols if entry.tick_days * 2 > entry.present > 0]
    if adjusted:
        notes.append(Note("adjusted", {"count": len(adjusted), "names": tuple(adjusted)}))
    suggested = suggestion(_by_pattern(found.letters), settings.symbol_pattern)
    if suggested is not None:
        notes.append(suggested)
    strangers = sum(sum(rules.values()) for symbol, rules in found.letters.items() if symbol not in found.present)
    if strangers:
        notes.append(Note("strangers", {"count": strangers}))
    return notes


def _calendar_notes(symbols: Sequence[SymbolQuality], found: SymbolDays, days: Sequence[date]) -> list[Note]:
    """Where the bars themselves contradict the holiday table."""
    notes = []
    empty = [
        day
        for place, day in enumerate(days)
        if any(entry.cells[place] in ABSENT for entry in symbols)
        and all(entry.cells[place] in (*ABSENT, NOTHING) for entry in symbols)
    ]
    if empty:
        notes.append(Note("empty", {"days": tuple(empty)}))
    closed: Counter[int] = Counter()
    expected = {(day - days[0]).days for day in days}
    for offsets in found.present.values():
        closed.update(offset for offset in offsets if offset not in expected)
    busy = [offset for offset, count in sorted(closed.items()) if count * 2 > len(found.present)]
    if busy:
        notes.append(Note("busy", {"days": tuple(days[0] + timedelta(days=offset) for offset in busy)}))
    return notes
