"""Schedules as JSON documents with stable keys, and as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from headrace.cli.documents import moment
from headrace.cli.tables import plain_table
from headrace.core.errors import CallerError
from headrace.core.schedules import FireOutcome, FireView, ScheduleView, jitter_ms, moment_text
from headrace.runtime.codec import plain_value
from headrace.runtime.timetable import Timetable, zone_of

NEXT_SHOWN = 3
_ID_CHARS_SHOWN = 8
_WIDE = 120
_DATE = slice(5, 16)


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


def schedule_table(views: Sequence[ScheduleView], width: int) -> Table:
    """Times are those of each schedule's zone. A narrow table has two lines a row, and of a job's id the end, which is
    what differs."""
    if width < _WIDE:
        return _narrow_table(views)
    table = plain_table("schedule", "flow", "timetable", "state", "next", "last", "job")
    for view in views:
        schedule = view.schedule
        names = (escape(schedule.name), escape(schedule.flow), escape(f"{schedule.timetable} {schedule.tz}"))
        fire = view.fires[0] if view.fires else None
        last = "" if fire is None else f"{_local(view, fire.moment_ms)} {_word(fire)}".strip()
        table.add_row(*names, view.state, _next(view), last, fire.job if fire else "")
    return table


def _narrow_table(views: Sequence[ScheduleView]) -> Table:
    table = plain_table("schedule", "timetable", "state", "next", "last")
    for column in table.columns:
        column.overflow = "fold"
    for view in views:
        schedule = view.schedule
        fire = view.fires[0] if view.fires else None
        job = "" if fire is None else _word(fire) or fire.job[-_ID_CHARS_SHOWN:]
        table.add_row(
            f"{escape(schedule.name)}\n{escape(schedule.flow)}",
            f"{escape(schedule.timetable)}\n{escape(schedule.tz)}",
            view.state,
            _short(_next(view)),
            "" if fire is None else f"{_short(_local(view, fire.moment_ms))}\n{job}",
        )
    return table


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
    return text[_DATE].replace("T", " ")
