"""A cron schedule as a value: what is created when, and how far that has come."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from headrace.errors import CallerError, InvalidPayload
from headrace.schedules import NEVER_MS, DayCalendar, Misfire, Schedule, Timetable, moment_text
from headrace_scheduler.jobs.schedule_words import FORMS
from headrace_scheduler.jobs.values import NO_TERMS, JobTerms
from headrace_scheduler.tenants.tenant_queue import DEFAULT_NAME, QueueName

FIELDS = 5
FLOW = "jobs"
LATE = timedelta(minutes=1)
"""A job that is created later than this after its moment is due when it is created: workers do not look far back."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CronRule:
    """At which moments: an expression of five fields in a time zone, less the days that are left out: its own and those
    of the calendars it names, as they were when it was read. `misfire` says what becomes of moments at which no worker
    ran."""

    expression: str
    time_zone: str = "UTC"
    misfire: Misfire = Misfire.ONCE
    days_out: tuple[str, ...] = ()
    calendars: tuple[str, ...] = ()
    calendar_days: tuple[str, ...] = ()

    def timetable(self) -> Timetable:
        """`CallerError` for what cannot be read."""
        return Timetable(self.expression, self.time_zone, DayCalendar.of((*self.days_out, *self.calendar_days)))

    def check(self, now: datetime) -> None:
        """Refuse what cannot be read and what never fires."""
        try:
            comes = self.timetable().after(ms_of(now)) < NEVER_MS
        except CallerError as error:
            hint = FORMS if self.expression in str(error) else error.hint
            raise InvalidPayload(f"schedule: {error}", hint) from None
        if not comes:
            raise InvalidPayload(
                f"schedule: {self.expression!r} never fires: all of its days are left out", "leave out fewer days_out"
            )


@dataclass(frozen=True, slots=True)
class CronMarks:
    """How far a schedule has come. Moments up to `handled_at` are decided; `open_at` is one whose job is still to be
    created and confirmed. `revision` rises when an operator changes something."""

    handled_at: datetime
    open_at: datetime | None = None
    paused: bool = False
    revision: int = 1


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A row of `cron_schedules` without what its jobs are made of."""

    schedule_id: UUID
    rule: CronRule
    marks: CronMarks
    created_at: datetime
    queue: QueueName = DEFAULT_NAME

    @property
    def status(self) -> str:
        return "paused" if self.marks.paused else "active"

    def policy(self) -> Schedule:
        """The engine's word for it, which its decisions on moments take."""
        rule = self.rule
        return Schedule(str(self.schedule_id), FLOW, rule.expression, rule.time_zone, misfire=rule.misfire)

    def next_moments(self, now: datetime, count: int) -> list[datetime]:
        after = max(ms_of(now), ms_of(self.marks.handled_at))
        return [moment_of_ms(ms) for ms in self.rule.timetable().next(after, count)]


@dataclass(frozen=True, slots=True)
class CronJob:
    """What every job of a schedule is made of."""

    payload: str
    terms: JobTerms = NO_TERMS
    queue: QueueName = DEFAULT_NAME


@dataclass(frozen=True, slots=True)
class CronFire:
    """A row of `cron_fires`: one moment and its job. `fired_at` is by the clock of the process that wrote the row."""

    moment: datetime
    job_id: UUID
    fired_at: datetime

    @property
    def scheduled_time(self) -> datetime:
        return self.moment if self.fired_at - self.moment < LATE else self.fired_at


def is_cron(word: str) -> bool:
    """Whether the word of a client is meant as a cron expression."""
    return len(word.split()) == FIELDS


def job_id_of(schedule_id: UUID, moment: datetime) -> UUID:
    """The same for every process that fires the moment."""
    return uuid5(schedule_id, moment_text(ms_of(moment)))


def ms_of(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def moment_of_ms(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)
