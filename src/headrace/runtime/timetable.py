"""Timetables: the moments of a cron expression in a time zone, or of an interval.

A timetable is a set of moments, whoever asks and whenever. Summer time is cron's: a time of day that a change of the
clocks leaves out is the first instant after the gap, and one that comes twice is its first coming. An expression whose
minute or hour begins with a star means "every so often" and follows real time through the change. Intervals are counted
from the epoch in UTC, or from a beginning that they name, which is their first moment. Moments on days that a calendar
leaves out are none of its moments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import islice, pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from headrace.core.calendars import DayCalendar
from headrace.core.errors import CallerError
from headrace.core.schedules import Schedule, chosen_moments, due_moments, jitter_ms

NEVER_MS = 253_402_300_799_000
"""The end of the year 9999."""

MISSED_COUNT_MAX = 1_000
"""Moments that are looked at to decide which fire; what lies before them is missed whatever the schedule says."""
# Within so many days every date has met every day of the week, also the 29th of February.
_CALENDAR_DAYS = 50 * 366
_DAY_MS = 86_400_000
# A day of half hours, a month of days, a year of Mondays: where an expression is densest it has shown itself by then.
GAPS_LOOKED_AT = 60
INTERVAL_S_MIN, INTERVAL_S_MAX = 1.0, 366 * 86_400.0
_DURATION = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?)?"
)
_UNIT_S = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_FORMS = 'a cron expression such as "*/5 * * * *", a duration such as PT5M, or R/2026-01-31T09:00Z/P1D'
_CRON_FIELDS = 5
_EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
# Looking back for the newest moments begins here and goes back four times as far each time.
_LOOK_BACK_MS = 3_600_000


class Timetable:
    """The moments of one schedule, in milliseconds since the epoch."""

    def __init__(self, text: str, tz: str = "UTC", days_out: DayCalendar | None = None) -> None:
        self.zone = zone_of(tz)
        self._days_out = days_out or DayCalendar()
        # Where the last search has found nothing: what a calendar leaves out may be all there is, and whoever asks
        # every second would search fifty years each time.
        self._gap = (0, 0)
        self._text = text.strip()
        self._interval_ms = self._begin_ms = 0
        match self._text.upper().split("/"):
            case [duration] if duration.startswith("P"):
                self._interval_ms = duration_ms(duration)
            case ["R", begin, duration]:
                self._begin_ms, self._interval_ms = _begin_ms(begin, self.zone), duration_ms(duration)
            case _:
                _check_cron(self._text)

    def after(self, moment_ms: int) -> int:
        """The first moment after this one; the end of time if there is none in fifty years."""
        return next(self._from(moment_ms), NEVER_MS)

    def newest(self, after_ms: int, until_ms: int, count_max: int) -> list[int]:
        """The newest moments in (after, until], oldest first."""
        back_ms = _LOOK_BACK_MS
        while True:
            start_ms = max(after_ms, until_ms - back_ms)
            found = self._between(start_ms, until_ms)
            if start_ms == after_ms or len(found) >= count_max:
                return found[-count_max:]
            back_ms *= 4

    def gap_ms_min(self) -> int:
        """The shortest time between two moments, of some dozens of them."""
        found = self.next(round(_EPOCH.timestamp()) * 1_000, GAPS_LOOKED_AT + 1)
        return min((later - earlier for earlier, later in pairwise(found)), default=NEVER_MS)

    def next(self, moment_ms: int, count: int) -> list[int]:
        """So many moments after this one."""
        return list(islice(self._from(moment_ms), count))

    def _between(self, start_ms: int, until_ms: int) -> list[int]:
        found = []
        for moment in self._from(start_ms):
            if moment > until_ms:
                break
            found.append(moment)
        return found

    def _from(self, moment_ms: int) -> Iterator[int]:
        if not self._days_out:
            yield from self._every(moment_ms)
            return
        begin_ms, end_ms = self._gap if self._gap[0] <= moment_ms < self._gap[1] else (moment_ms, moment_ms + 1)
        found, until_ms = self._every(end_ms - 1), moment_ms + _CALENDAR_DAYS * _DAY_MS
        is_first = True
        while (moment := next(found, NEVER_MS)) < until_ms:
            day = datetime.fromtimestamp(moment // 1_000, self.zone).date()
            if self._days_out.leaves_out(day):
                # A day may have a moment every minute: none of them is looked at but the first.
                kept = datetime.combine(self._kept_day(day, until_ms), time(), self.zone)
                found = self._every(round(kept.timestamp()) * 1_000 - 1)
                continue
            if is_first:
                self._gap, is_first = (begin_ms, moment), False
            until_ms = moment + _CALENDAR_DAYS * _DAY_MS
            yield moment
        if is_first:
            self._gap = (begin_ms, until_ms)

    def _kept_day(self, day: date, until_ms: int) -> date:
        """The next day that is not left out, up to an end."""
        last = datetime.fromtimestamp(until_ms // 1_000, self.zone).date()
        day += timedelta(days=1)
        while day < last and self._days_out.leaves_out(day):
            day += timedelta(days=1)
        return day

    def _every(self, moment_ms: int) -> Iterator[int]:
        """The moments after this one, on whatever day."""
        if self._interval_ms:
            passed = max(-1, (moment_ms - self._begin_ms) // self._interval_ms)
            moment = self._begin_ms + passed * self._interval_ms
            while True:
                moment += self._interval_ms
                yield moment
        start = datetime.fromtimestamp(moment_ms // 1_000, self.zone)
        last = moment_ms
        for found in CronSim(self._text, start):
            moment = round(found.timestamp()) * 1_000
            # In an hour that comes twice the search may find what lies before its start.
            if moment > last:
                last = moment
                yield moment


@dataclass(frozen=True, slots=True)
class RipeMoments:
    """What becomes of the moments of a schedule up to now: `chosen` fire, oldest first, `missed` do not, and with that
    it is handled up to `handled_ms`. It wants to be looked at again at `due_ms`."""

    chosen: Sequence[int]
    missed: int
    handled_ms: int
    due_ms: int


def ripe_moments(schedule: Schedule, timetable: Timetable, handled_ms: int, now_ms: int) -> RipeMoments:
    """Decide on everything after `handled_ms`, by the schedule's own policy for what was missed."""
    moments = timetable.newest(handled_ms, now_ms, MISSED_COUNT_MAX)
    ready = due_moments(schedule, moments, now_ms)
    chosen = chosen_moments(schedule, ready, now_ms)
    handled_ms = ready[-1] if ready else handled_ms
    next_ms = timetable.after(handled_ms)
    return RipeMoments(chosen, len(ready) - len(chosen), handled_ms, next_ms + jitter_ms(schedule, next_ms))


def timetable_text(when: str | timedelta) -> str:
    """The text of a timetable from what an author writes."""
    if isinstance(when, str):
        return when.strip()
    seconds = when.total_seconds()
    if not INTERVAL_S_MIN <= seconds <= INTERVAL_S_MAX or seconds != int(seconds):
        raise CallerError(
            f"an interval of {seconds:g} s is not a whole number of seconds from {INTERVAL_S_MIN:g} to 366 days"
        )
    return f"PT{int(seconds)}S"


def zone_of(tz: str) -> tzinfo:
    """A time zone by its name, or words that help."""
    if tz == "UTC":
        return UTC
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CallerError(f"there is no time zone {tz!r}", "write one such as Asia/Ho_Chi_Minh or UTC") from None


def _begin_ms(text: str, zone: tzinfo) -> int:
    """The beginning of an interval; one that names no offset is in the schedule's zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise CallerError(f"{text!r} is not a point in time", f"write {_FORMS}") from None
    return int((at if at.tzinfo is not None else at.replace(tzinfo=zone)).timestamp()) * 1_000


def duration_ms(text: str) -> int:
    """The milliseconds of a duration such as PT5M, from a second to a year."""
    match = _DURATION.fullmatch(text)
    parts = {unit: int(count) for unit, count in match.groupdict().items() if count} if match else {}
    # Summed by hand: a timedelta of too many days raises an error of its own.
    seconds = sum(count * _UNIT_S[unit] for unit, count in parts.items())
    if not INTERVAL_S_MIN <= seconds <= INTERVAL_S_MAX:
        raise CallerError(f"{text!r} is not a duration from PT1S to P366D", f"write {_FORMS}")
    return seconds * 1_000


def _check_cron(text: str) -> None:
    if len(text.split()) != _CRON_FIELDS:
        raise CallerError(f"{text!r} is not a timetable: cron has {_CRON_FIELDS} fields", f"write {_FORMS}")
    try:
        found = next(CronSim(text, _EPOCH), None)
    except (CronSimError, ValueError) as error:
        raise CallerError(f"{text!r} is not a timetable: {str(error).lower()}", f"write {_FORMS}") from None
    if found is None:
        raise CallerError(f"{text!r} never comes", f"write {_FORMS}")
