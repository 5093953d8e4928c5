"""What is known of a span of time, as values. Nothing in here is a payload or the text of an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from headrace_scheduler.jobs.values import JobRun


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One line of a log."""

    at: datetime
    level: str
    event: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """A series of Prometheus over the time, one point per step."""

    name: str
    labels: Mapping[str, str]
    points: tuple[tuple[datetime, float], ...]


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job that was due in the time, and how it stands now."""

    job_id: UUID
    scheduled_time: datetime
    status: str


@dataclass(frozen=True, slots=True)
class SeenDeath:
    """A dead job: what class of error ended it, and what type of payload it had."""

    job_id: UUID
    at: datetime
    error_class: str
    kind: str


@dataclass(frozen=True, slots=True)
class SeenLock:
    """A lock as its row is now."""

    resource: str
    holder: str
    token: int
    expired: bool


@dataclass(frozen=True, slots=True)
class Audited:
    """Something that a person did by hand."""

    at: datetime
    action: str
    subject: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of it. `missing` names what could not be collected, and why."""

    since: datetime
    until: datetime
    jobs: tuple[SeenJob, ...] = ()
    runs: tuple[JobRun, ...] = ()
    dead: tuple[SeenDeath, ...] = ()
    locks: tuple[SeenLock, ...] = ()
    audited: tuple[Audited, ...] = ()
    events: tuple[LogEvent, ...] = ()
    series: tuple[MetricSeries, ...] = ()
    missing: tuple[str, ...] = ()

    def named(self, name: str) -> list[MetricSeries]:
        return [each for each in self.series if each.name == name]

    def steps(self, count: int) -> list[datetime]:
        """The beginnings of so many equal parts of the time."""
        part = (self.until - self.since) / count
        return [self.since + part * number for number in range(count)]

    def part_of(self, at: datetime, count: int) -> int | None:
        """Which of these parts a moment is in."""
        if not self.since <= at < self.until:
            return None
        return min(count - 1, int((at - self.since) / ((self.until - self.since) / count)))

    @property
    def span(self) -> timedelta:
        return self.until - self.since
