"""Schedules as JSON documents with stable keys, and as a list for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from headrace.cli.documents import moment
from headrace.cli.lists import Column, print_list, short_ids
from headrace.core.errors import CallerError
from headrace.core.schedules import FireOutcome, FireView, ScheduleView, jitter_ms, moment_text
from headrace.runtime.codec import plain_value
from headrace.runtime.timetable import Timetable, zone_of

NEXT_SHOWN = 3
_DATE, _OFFSET = slice(5, 16), slice(19, None)


def next_moments(view: ScheduleView) -> list[int]:
    """The moments that come next, as far as this installation can read the timetable."""
    schedule = view.schedule
    if view.state in ("paused", "undeclared"):
        return []
    try:
        return Timetable(schedule.timetable, schedule.tz).next(view.handled_ms, NEXT_SHOWN)
    except CallerError:
        return []


def schedule_document(view: ScheduleView) -> dict[str, Any]:
    schedule = view.schedule
    return {
        "name": schedule.name,
        "flow": schedule.flow,
        "stage": schedule.stage or None,
        "timetable": schedule.timetable,
        "tz": schedule.tz,
        "misfire": schedule.misfire.value,
        "overlap": schedule.overlap.value,
        "jitter_s": schedule.jitter_s,
        "tenant": schedule.tenant,
        "payload": None if schedule.payload is None else plain_value(schedule.payload),
        "origin": view.origin.value,
        "state": view.state,
        "paused": view.paused,
        "attended": view.attended,
        "missed": view.missed,
        "asked_at": None if view.asked_ms is None else moment_text(view.asked_ms),
        "next_at": [moment_text(at + jitter_ms(schedule, at)) for at in next_moments(view)],
        "fires": [_fire_document(fire) for fire in view.fires],
    }


def _fire_document(fire: FireView) -> dict[str, Any]:
    return {
        "moment": moment_text(fire.moment_ms),
        "fired_at": moment(fire.fired_at),
        "outcome": fire.outcome.value,
        "job": fire.job or None,
        "reason": fire.reason,
        "manual": fire.manual,
    }


def print_schedules(console: Console, views: Sequence[ScheduleView]) -> None:
    """Times are those of each schedule's zone."""
    coming = [_next(view) for view in views]
    last = [view.fires[0] if view.fires else None for view in views]
    at = ["" if fire is None else _local(view, fire.moment_ms) for view, fire in zip(views, last, strict=True)]
    words = ["" if fire is None else _word(fire) for fire in last]
    jobs = ["" if fire is None else fire.job for fire in last]
    columns = [
        Column("schedule", [escape(view.schedule.name) for view in views]),
        Column("flow", [escape(view.schedule.flow) for view in views], spare=2),
        Column("timetable", [escape(view.schedule.timetable) for view in views]),
        Column("tz", [escape(view.schedule.tz) for view in views], spare=3),
        Column("state", [view.state for view in views]),
        Column("next", coming, [_short(text) for text in coming]),
        Column("last", at, [_short(text) for text in at], spare=1),
        Column("job", _either(jobs, words), _either(short_ids(jobs), words)),
    ]
    print_list(console, columns)


def _either(jobs: Sequence[str], words: Sequence[str]) -> list[str]:
    """The job of a fire, or why there is none."""
    return [job or word for job, word in zip(jobs, words, strict=True)]


def _word(fire: FireView) -> str:
    return "" if fire.outcome is FireOutcome.FIRED else fire.outcome.value


def _next(view: ScheduleView) -> str:
    coming = next_moments(view)
    return _local(view, coming[0]) if coming else ""


def _local(view: ScheduleView, at_ms: int) -> str:
    try:
        return moment_text(at_ms, zone_of(view.schedule.tz))
    except CallerError:
        return moment_text(at_ms)


def _short(text: str) -> str:
    """To the minute, with what it differs from universal time: the list may have no room for the name of the zone."""
    return "" if not text else text[_DATE].replace("T", " ") + text[_OFFSET].removesuffix(":00")
