"""On which days the Vietnamese exchanges trade: weekdays without the closures of a dated table of our own.

How sure the table is: 2026 follows the exchanges' notice for the year, and 2 January the reports of the first sessions.
Of 2022 New Year, Tết, Hùng Kings' day and September were compared with notices, of 2023 Tết and September, of 2024 New
Year and the end of April. The other days of 2019 to 2025 are past and were written down without a notice at hand. 2027
is only what the labour code lets expect (the lunar days are sure, which days around them are given is not). Whether a
new holiday on 24 November closes the exchanges was not known when this was written. On a Saturday that makes up for a
day off they do not trade. Other years are not in the table: there every weekday counts, and whoever shows figures says
so (`doubts`). The report also tells where the bars themselves contradict the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta

from headrace_silver.market.notes import Note
from headrace_silver.records.rule_checks import VIETNAM

CLOSES_AT = time(15, 0)
FIRST_YEAR, LAST_CERTAIN_YEAR, LAST_YEAR = 2019, 2026, 2027

# Month and day, or a run of days; weekends inside a run do no harm.
_CLOSURES = {
    2019: "01-01 02-04..02-08 04-15 04-29..05-01 09-02",
    2020: "01-01 01-23..01-29 04-02 04-30..05-01 09-02",
    2021: "01-01 02-10..02-16 04-21 04-30..05-03 09-02..09-03",
    2022: "01-03 01-31..02-04 04-11 05-02..05-03 09-01..09-02",
    2023: "01-02 01-20..01-26 05-01..05-03 09-01..09-04",
    2024: "01-01 02-08..02-14 04-18 04-29..05-01 09-02..09-03",
    2025: "01-01 01-27..01-31 04-07 04-30..05-02 09-01..09-02",
    2026: "01-01..01-02 02-16..02-20 04-27 04-30..05-01 08-31..09-02",
    2027: "01-01 02-04..02-10 04-16 04-30..05-03 09-02..09-03",
}


def days(first: date, last: date) -> Iterator[date]:
    """Every day from the first to the last."""
    for number in range(first.toordinal(), last.toordinal() + 1):
        yield date.fromordinal(number)


def _closed() -> Iterator[date]:
    for year, entries in _CLOSURES.items():
        for entry in entries.split():
            first, _, last = entry.partition("..")
            yield from days(date.fromisoformat(f"{year}-{first}"), date.fromisoformat(f"{year}-{last or first}"))


CLOSED = frozenset(day for day in _closed() if day.weekday() < 5)


def is_trading_day(day: date) -> bool:
    """Whether the exchanges trade on this day, as far as the table knows."""
    return day.weekday() < 5 and day not in CLOSED


def trading_days(first: date, last: date) -> list[date]:
    """The trading days from the first to the last day, both included."""
    return [day for day in days(first, last) if is_trading_day(day)]


def previous_trading_day(day: date) -> date:
    """The last trading day before this one."""
    while not is_trading_day(day := day - timedelta(days=1)):
        pass
    return day


def last_trading_days(last: date, count: int) -> list[date]:
    """So many trading days in order, ending with the last one that is not after `last`."""
    found: list[date] = []
    day = last + timedelta(days=1)
    while len(found) < count:
        day = previous_trading_day(day)
        found.append(day)
    return found[::-1]


def market_date(now: datetime) -> date:
    """The date in Vietnam at this moment."""
    return now.astimezone(VIETNAM).date()


def last_closed_day(now: datetime) -> date:
    """The last trading day whose session is over: today from 15:00 on in Vietnam, otherwise an earlier one."""
    local = now.astimezone(VIETNAM)
    if is_trading_day(local.date()) and local.time() >= CLOSES_AT:
        return local.date()
    return previous_trading_day(local.date())


def doubts(first: date, last: date) -> list[Note]:
    """What to say about the table, if these days reach beyond what is certain."""
    said = []
    beyond = [year for year in range(first.year, last.year + 1) if not FIRST_YEAR <= year <= LAST_YEAR]
    if beyond:
        named = str(beyond[0]) if len(beyond) == 1 else f"{beyond[0]}–{beyond[-1]}"
        said.append(Note("beyond", {"years": named}))
    if first.year <= LAST_YEAR and last.year > LAST_CERTAIN_YEAR:
        said.append(Note("expected", {"year": str(LAST_YEAR)}))
    return said
