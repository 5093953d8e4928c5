"""What the quality report says, as values: one entry per symbol, the rejects by rule and day, the articles, and notes.

Days are trading days of one window; whatever happened on one of them is a letter in the `cells` of a symbol, so that a
year of all symbols fits into half a megabyte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from headrace_silver.market.notes import Note
from headrace_silver.market.price_bands import UNKNOWN
from headrace_silver.records.rules import SYMBOL_PATTERN

# Nothing was expected (before the first bar, after the last one of a symbol that stopped), or what the day has.
NOTHING, PRESENT, MISSING, REJECTED, REVISED, WARNED = " ", "p", "m", "x", "r", "w"
# A day without a bar: none ever came, or what came was rejected.
ABSENT = MISSING + REJECTED
CELL_WORDS = {
    PRESENT: "present",
    MISSING: "missing",
    REJECTED: "missing, rejected",
    REVISED: "revised",
    WARNED: "warned",
}

DAYS, DAYS_MAX = 250, 2_500
STOPPED_AFTER = 20


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """How many trading days to look at, and after how many without a bar a symbol has stopped and is no longer late."""

    days: int = DAYS
    stopped_after: int = STOPPED_AFTER
    exchange: str = UNKNOWN
    symbol_pattern: str = SYMBOL_PATTERN


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a day has no bar: the rule (or reason) that refused it last, and the letter."""

    rule: str
    letter: int


@dataclass(slots=True)
class SymbolQuality:
    """One symbol. `behind` counts the closed trading days after its last bar, `cells` has a letter per trading day.

    `rejections` has the days without a bar of which a letter tells why; for any other none ever came.
    """

    symbol: str
    exchange: str
    first_day: date
    last_day: date
    behind: int
    stopped: bool
    cells: str = ""
    revisions: int = 0
    band_days: int = 0
    tick_days: int = 0
    closed_days: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    rejections: Mapping[date, Rejection] = field(default_factory=dict)

    @property
    def late(self) -> bool:
        return self.behind > 0 and not self.stopped

    @property
    def expected(self) -> int:
        return len(self.cells) - self.cells.count(NOTHING)

    @property
    def missing(self) -> int:
        return self.cells.count(MISSING) + self.cells.count(REJECTED)

    @property
    def present(self) -> int:
        return self.expected - self.missing

    @property
    def rejects(self) -> int:
        return sum(self.rejected.values())

    @property
    def completeness(self) -> float | None:
        """The share of the expected days that have a bar."""
        return self.present / self.expected if self.expected else None

    @property
    def validity(self) -> float | None:
        """Stored bars against stored bars and rejected ones."""
        whole = self.present + self.rejects
        return self.present / whole if whole else None

    @property
    def trouble(self) -> tuple[bool, int, int, int, str]:
        """Sorts those first that somebody should look at."""
        return self.stopped, -self.missing, -self.band_days, -self.revisions - self.rejects, self.symbol


@dataclass(frozen=True, slots=True)
class BandBreak:
    """A bar whose range left the band around the price before it, in dong."""

    symbol: str
    exchange: str
    day: date
    reference: float
    low: float
    high: float

    @property
    def change(self) -> float:
        """The farther end of the range against the reference."""
        up, down = self.high / self.reference - 1, self.low / self.reference - 1
        return up if abs(up) >= abs(down) else down


@dataclass(frozen=True, slots=True)
class RejectDay:
    """How many tasks one rule (or reason, where there is no rule) refused on one day."""

    day: date
    rule: str
    count: int


@dataclass(frozen=True, slots=True)
class ClosedLetters:
    """Letters of one rule (or reason) that one person closed with one note; the last of them, and when."""

    rule: str
    note: str
    by: str
    count: int
    letter: int
    closed_at: datetime


@dataclass(frozen=True, slots=True)
class NewsSource:
    """The articles of one source: how many in which language, and how long after publication they were first seen."""

    domain: str
    articles: int
    vi: int
    en: int
    unknown: int
    unstated: int
    lag_s_median: int
    lag_s_95: int


@dataclass(frozen=True, slots=True)
class Copies:
    """Articles of one source with the same content under several addresses."""

    domain: str
    content_hash: str
    articles: int
    url_first: str
    url_last: str
    title: str | None


@dataclass(frozen=True, slots=True)
class ArticleQuality:
    """All articles of the window; of sources and copies only the largest are listed."""

    articles: int = 0
    sources: int = 0
    with_symbols: int = 0
    largest: Sequence[NewsSource] = ()
    copy_groups: int = 0
    copies_extra: int = 0
    copies: Sequence[Copies] = ()


@dataclass(frozen=True, slots=True)
class Quality:
    """The whole report. `days` are the trading days of the window, the last one is the last whose session is over."""

    made_at: datetime
    settings: ReportSettings
    days: Sequence[date]
    symbols: Sequence[SymbolQuality]
    band_breaks: Sequence[BandBreak]
    rejects: Sequence[RejectDay]
    articles: ArticleQuality
    slow: bool | None
    notes: Sequence[Note]
    closed: Sequence[ClosedLetters] = ()

    @property
    def last_closed(self) -> date:
        return self.days[-1]

    @property
    def active(self) -> list[SymbolQuality]:
        """Symbols that still trade, those with trouble first."""
        return sorted((entry for entry in self.symbols if not entry.stopped), key=lambda entry: entry.trouble)

    @property
    def stopped(self) -> list[SymbolQuality]:
        return [entry for entry in self.symbols if entry.stopped]

    @property
    def late(self) -> list[SymbolQuality]:
        """Symbols without a bar for the last closed day, the latest first."""
        late = [entry for entry in self.symbols if entry.late]
        return sorted(late, key=lambda entry: (-entry.behind, entry.symbol))

    @property
    def completeness(self) -> float | None:
        expected = sum(entry.expected for entry in self.symbols)
        return sum(entry.present for entry in self.symbols) / expected if expected else None

    @property
    def rejects_by_rule(self) -> dict[str, int]:
        """Totals of the window, the most frequent first."""
        totals: Counter[str] = Counter()
        for entry in self.rejects:
            totals[entry.rule] += entry.count
        return dict(sorted(totals.items(), key=lambda pair: (-pair[1], pair[0])))
