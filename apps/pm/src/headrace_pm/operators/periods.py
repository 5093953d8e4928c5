"""Moments and periods as operators write them: `2026-01-31T06:00`, `24h`, `15m`. Times without a zone are UTC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from headrace.errors import CallerError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class PeriodSpan:
    """Periods of one length side by side, from `first` up to and without `end`; both are on their grid."""

    first: datetime
    end: datetime
    period_s: int

    @classmethod
    def around(cls, first: datetime, end: datetime, period_s: int) -> PeriodSpan:
        """The whole periods that touch the time between two moments."""
        if first >= end:
            raise CallerError(f"{first:%Y-%m-%d %H:%M} is not before {end:%Y-%m-%d %H:%M}", "--from is before --to")
        return cls(floored(first, period_s), _ceiled(end, period_s), period_s)

    def over_at(self, now: datetime) -> PeriodSpan:
        """Those that are over: nobody delivers what is still to come. All, if none is over: then somebody means it."""
        over = floored(now, self.period_s)
        return replace(self, end=over) if self.first < over < self.end else self

    def __len__(self) -> int:
        return int((self.end - self.first).total_seconds()) // self.period_s

    def begin(self, number: int) -> datetime:
        return self.first + timedelta(seconds=number * self.period_s)

    def begins(self) -> Iterator[datetime]:
        return map(self.begin, range(len(self)))

    def number_of(self, moment: datetime) -> int:
        return int((moment - self.first).total_seconds() // self.period_s)


def _ceiled(moment: datetime, period_s: int) -> datetime:
    low = floored(moment, period_s)
    return low if low == moment else low + timedelta(seconds=period_s)


def floored(moment: datetime, period_s: int) -> datetime:
    """The beginning of the period that a moment is in."""
    seconds = int((moment - EPOCH).total_seconds() // period_s) * period_s
    return EPOCH + timedelta(seconds=seconds)


def moment_of(text: str, option: str) -> datetime:
    """`2026-01-31`, `2026-01-31T06:00`, with or without a zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CallerError(f"{option} {text} is no time", "write 2026-01-31, or 2026-01-31T06:00:00+07:00") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def length_of(text: str, option: str, forms: str = "write 90s, 15m, 24h or 7d") -> timedelta:
    """`15m`, `24h`, `7d`."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isdecimal() or not 0 < int(number) <= 100_000:
        raise CallerError(f"{option} {text} is no length of time", forms)
    return timedelta(**{_UNITS[unit]: int(number)})


def period_of(text: str, option: str = "--period") -> int:
    """A period in seconds; days are cut into whole ones, so that they begin at the same times every day."""
    seconds = int(length_of(text, option).total_seconds())
    if DAY_S % seconds:
        raise CallerError(f"{option} {text} does not divide a day", "write 5m, 15m, 30m, 60m or 1d")
    return seconds


def between(since: str | None, until: str | None, now: datetime, otherwise: timedelta) -> tuple[datetime, datetime]:
    """What --from and --to say; without them the last time up to now."""
    end = moment_of(until, "--to") if until else now
    return (moment_of(since, "--from") if since else end - otherwise), end
