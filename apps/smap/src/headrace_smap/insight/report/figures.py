"""Counts of posts by sentiment, and how two periods of a project compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta

from headrace_smap.database import Row

SENTIMENTS = ("positive", "neutral", "negative")
OTHER = "unknown"
KINDS = (*SENTIMENTS, OTHER)
PERIOD_DAYS = (1, 7, 14, 30)
# Two years: more columns than these are thinner than a line.
DAYS_MAX = 750

Shares = dict[str, Counter[str]]
"""Posts by sentiment, for each of something."""


@dataclass(frozen=True, slots=True)
class PostFigures:
    """Posts that are no spam: by sentiment, how many are a high risk, and their engagement if anything tells it."""

    sentiments: Counter[str] = field(default_factory=Counter)
    risky: int = 0
    engagement: int | None = None

    @property
    def posts(self) -> int:
        return self.sentiments.total()

    def share(self, sentiment: str) -> float | None:
        return self.sentiments[sentiment] / self.posts if self.posts else None

    @classmethod
    def sum(cls, parts: Iterable[PostFigures]) -> PostFigures:
        given = list(parts)
        known = [part.engagement for part in given if part.engagement is not None]
        sentiments: Counter[str] = Counter()
        for part in given:
            sentiments.update(part.sentiments)
        return cls(sentiments, sum(part.risky for part in given), sum(known) if known else None)


@dataclass(frozen=True, slots=True)
class Period:
    """Some days in a row and what was written on them."""

    first: date
    last: date
    figures: PostFigures


def figures_by_day(rows: Iterable[Row]) -> dict[str, PostFigures]:
    """Rows of counts as figures of each day; those of no known day are under `OTHER`."""
    parts: dict[str, list[PostFigures]] = {}
    for day, _, _, sentiment, posts, risky, engagement, _, spam in rows:
        if not spam:
            figures = PostFigures(Counter({sentiment_of(sentiment): int(posts)}), int(risky), engagement)
            parts.setdefault(str(day or OTHER), []).append(figures)
    return {day: PostFigures.sum(parts[day]) for day in sorted(parts)}


def every_day(days: Mapping[str, PostFigures], date_range: Sequence[str]) -> dict[str, PostFigures]:
    """The days of a project from its first to its last, those on which nobody wrote too: silence is told, not left out.
    Only those with posts where there are too many to draw."""
    known = [date.fromisoformat(day) for day in days if day != OTHER]
    for text in date_range:
        with suppress(ValueError):
            known.append(date.fromisoformat(text))
    span = (max(known) - min(known)).days + 1 if known else 0
    if not days or span > DAYS_MAX:
        return dict(days)
    every = [(min(known) + timedelta(place)).isoformat() for place in range(span)]
    named = {day: days.get(day, PostFigures()) for day in every}
    return named | ({OTHER: days[OTHER]} if OTHER in days else {})


def spam_of(rows: Iterable[Row]) -> int | None:
    """How many posts are spam; None where that is not told."""
    given = list(rows)
    return None if any(row[8] is None for row in given) else sum(int(row[4]) for row in given if row[8])


def shares_of(rows: Iterable[Row], column: int) -> Shares:
    """What is in a column of the counts, by sentiment and without spam."""
    return counted((str(row[column] or OTHER), row[3], row[4]) for row in rows if not row[8])


def counted(rows: Iterable[tuple[str, str, int]]) -> Shares:
    """Names by sentiment, the most frequent first."""
    shares: Shares = {}
    for name, sentiment, posts in rows:
        shares.setdefault(str(name), Counter())[sentiment_of(sentiment)] += int(posts)
    return dict(sorted(shares.items(), key=lambda share: (-share[1].total(), share[0])))


def sentiment_of(name: str) -> str:
    return name if name in SENTIMENTS else OTHER


def period_lengths(days: Mapping[str, PostFigures]) -> tuple[int, ...]:
    """How many days a period may have so that two of them lie within the project, half of it being the longest."""
    known = _known(days)
    half = (known[-1] - known[0]).days // 2 + (known[-1] - known[0]).days % 2 if len(known) > 1 else 0
    return tuple(sorted({length for length in PERIOD_DAYS if length < half} | {half})) if half else ()


def two_periods(days: Mapping[str, PostFigures], length: int | None = None) -> tuple[Period, Period] | None:
    """The last days of a project and as many before them; half of it unless told. None if there are no two."""
    lengths = period_lengths(days)
    if not lengths:
        return None
    span = timedelta(length if length in lengths else lengths[-1])
    last = _known(days)[-1]
    return _period(days, last - 2 * span, last - span), _period(days, last - span, last)


def _period(days: Mapping[str, PostFigures], before: date, last: date) -> Period:
    """The days after `before` up to `last`."""
    within = [figures for day, figures in days.items() if day != OTHER and before < date.fromisoformat(day) <= last]
    return Period(before + timedelta(1), last, PostFigures.sum(within))


def _known(days: Mapping[str, PostFigures]) -> list[date]:
    return sorted(date.fromisoformat(day) for day in days if day != OTHER)
