"""Days as people count them: from midnight to midnight of one zone, which is said wherever days are shown.

Moments are stored and told in UTC. A post's day is written beside it, with the zone by which it was found.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

VIETNAM = ZoneInfo("Asia/Ho_Chi_Minh")


def zone_named(name: str) -> ZoneInfo:
    """The zone of the setting; a ValueError says what is wrong with it."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError("is no time zone: write a name such as Asia/Ho_Chi_Minh, Asia/Bangkok or UTC") from None


def clock_in(zone: ZoneInfo, moment: datetime) -> datetime:
    """What clocks of the zone show at a moment."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        # Within hours of the first or the last moment that there is: anybody may write such a time into a post.
        return moment


def day_of(moment: datetime, zone: ZoneInfo) -> date:
    return clock_in(zone, moment).date()


def begin_of(day: date, zone: ZoneInfo) -> datetime:
    """The first moment of a day, in UTC."""
    return datetime.combine(day, time(), zone).astimezone(UTC)


def end_of(day: date, zone: ZoneInfo) -> datetime:
    """The first moment after a day, in UTC; OverflowError after the last day of all."""
    return begin_of(day + timedelta(days=1), zone)
