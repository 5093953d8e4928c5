"""Schedules for programs: what `engine.schedules` takes and gives, and timetables to look ahead with.

    await engine.schedules.add("nightly", flow, "0 3 * * *", tz="Asia/Ho_Chi_Minh", payload=query)
    Timetable("0 3 * * *", "Asia/Ho_Chi_Minh").next(now_ms, 3)

A moment is a number of milliseconds since the epoch.
"""

from headrace.core.calendars import DayCalendar
from headrace.core.schedules import (
    FireOutcome,
    FireView,
    Misfire,
    Origin,
    Overlap,
    Schedule,
    ScheduleView,
    moment_text,
)
from headrace.runtime.engine_schedules import EngineSchedules
from headrace.runtime.timetable import NEVER_MS, RipeMoments, Timetable, duration_ms, ripe_moments

__all__ = [
    "NEVER_MS",
    "DayCalendar",
    "EngineSchedules",
    "FireOutcome",
    "FireView",
    "Misfire",
    "Origin",
    "Overlap",
    "RipeMoments",
    "Schedule",
    "ScheduleView",
    "Timetable",
    "duration_ms",
    "moment_text",
    "ripe_moments",
]
