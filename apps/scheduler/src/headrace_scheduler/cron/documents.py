"""Schedules as JSON: what clients send with a cron expression, and what they get."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from pydantic import Field, StrictStr, model_validator

from headrace.schedules import Misfire
from headrace_scheduler.api.documents import JobBody
from headrace_scheduler.cron.cron_schedule import CronFire, CronRule, CronSchedule, is_cron
from headrace_scheduler.cron.operations import CronDetail
from headrace_scheduler.jobs.texts import payload_value, time_text

MOMENTS_SHOWN = 5
_CRON_ONLY = ("time_zone", "misfire", "days_out", "calendars")


class JobOrCronBody(JobBody):
    """The body of `POST /jobs`: with a cron expression as its `schedule`, what is made is a schedule."""

    time_zone: StrictStr = Field("UTC", max_length=100)
    misfire: Misfire = Misfire.ONCE
    days_out: list[StrictStr] = Field(default_factory=list)
    calendars: list[StrictStr] = Field(default_factory=list, max_length=20)

    @model_validator(mode="after")
    def _only_for_cron(self) -> Self:
        given = [name for name in _CRON_ONLY if name in self.model_fields_set]
        if given and not is_cron(self.schedule):
            raise ValueError(f"{', '.join(given)}: only for a schedule that is a cron expression")
        return self

    def rule(self) -> CronRule:
        expression, days_out, calendars = " ".join(self.schedule.split()), tuple(self.days_out), tuple(self.calendars)
        return CronRule(expression, self.time_zone, self.misfire, days_out, calendars)


def schedule_document(schedule: CronSchedule, now: datetime) -> dict[str, Any]:
    """`scheduled_time` is that of its next job; null while it is paused."""
    rule, paused = schedule.rule, schedule.marks.paused
    coming = [] if paused else schedule.next_moments(now, 1)
    return {
        "schedule_id": str(schedule.schedule_id),
        "status": schedule.status,
        "schedule": rule.expression,
        "time_zone": rule.time_zone,
        "misfire": rule.misfire,
        "days_out": list(rule.days_out),
        "calendars": list(rule.calendars),
        "scheduled_time": time_text(coming[0]) if coming else None,
        "created_at": time_text(schedule.created_at),
        "tenant": schedule.queue.tenant,
        "priority": schedule.queue.priority,
    }


def detail_document(detail: CronDetail, now: datetime) -> dict[str, Any]:
    schedule, paused = detail.schedule, detail.schedule.marks.paused
    return {
        **schedule_document(schedule, now),
        "payload": payload_value(detail.job.payload),
        "max_duration_seconds": detail.job.terms.max_duration_seconds,
        "next": [] if paused else [time_text(moment) for moment in schedule.next_moments(now, MOMENTS_SHOWN)],
        "fires": [_fire_document(fire) for fire in detail.fires],
    }


def _fire_document(fire: CronFire) -> dict[str, Any]:
    return {"moment": time_text(fire.moment), "job_id": str(fire.job_id), "fired_at": time_text(fire.fired_at)}
