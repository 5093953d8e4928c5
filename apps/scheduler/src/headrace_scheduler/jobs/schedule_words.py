"""When a job shall run, as a client writes it: `now`, a time (RFC 3339), or `+PT30S` from now.

A cron expression makes a schedule instead: see `headrace_scheduler.cron`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headrace.errors import CallerError, InvalidPayload
from headrace.schedules import duration_ms

FORMS = 'write "now", a time such as 2026-01-31T09:00:00Z, a delay such as "+PT30S", or cron such as "0 9 * * *"'
NOW = "now"
# The driver and the tables hold any year; what lies further ahead than this is a slip of the pen.
AHEAD_MAX = timedelta(days=3_660)
# Where times begin in every client. Nobody looks for jobs before that, so none may be accepted there.
FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


def scheduled_time(word: str, now: datetime) -> datetime:
    """The moment that a word means, in whole milliseconds, as the tables keep it."""
    text = word.strip()
    if text == NOW:
        return whole_ms(now)
    moment = now + _delay(text) if text.startswith("+") else _moment(text)
    if moment > now + AHEAD_MAX:
        raise InvalidPayload(f"schedule: {text!r} is more than {AHEAD_MAX.days:,} days ahead", FORMS)
    return whole_ms(moment)


def whole_ms(moment: datetime) -> datetime:
    """Cassandra keeps milliseconds; a key must be found again by the value that was written."""
    return moment.replace(microsecond=moment.microsecond // 1_000 * 1_000)


def _delay(text: str) -> timedelta:
    try:
        return timedelta(milliseconds=duration_ms(text[1:].upper()))
    except CallerError as error:
        raise InvalidPayload(f"schedule: {error}", FORMS) from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidPayload(f"schedule: {text!r} is no time that is known here", FORMS) from None
    if moment.tzinfo is None or "T" not in text.upper():
        raise InvalidPayload(f"schedule: {text!r} names no time zone", FORMS)
    # Compared before it is moved to UTC, where a time of the year 1 or 9999 may not be.
    if not FIRST <= moment <= LAST:
        raise InvalidPayload(f"schedule: {text!r} is not from {FIRST:%Y} to {LAST:%Y}", FORMS)
    return moment.astimezone(UTC)
