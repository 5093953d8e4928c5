"""Firing: every worker looks after all schedules. No lease is needed for it.

A moment is decided by a conditional change of its schedule's row: what is handled moves on to it, and it stands there
as open until its job is confirmed. Of two that decide at once one is refused. Which moments that are, and which of
those that were missed still fire, follows from the schedule by the rules of the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from uuid import UUID

import structlog

from headrace.errors import CallerError, HeadraceError
from headrace.schedules import Timetable, ripe_moments
from headrace.services import Pauses, rest
from headrace_scheduler.cron.cron_schedule import CronRule, CronSchedule, moment_of_ms, ms_of
from headrace_scheduler.cron.fire_creator import FireCreator
from headrace_scheduler.jobs.growing_rests import GrowingRests
from headrace_scheduler.tables.cron_rows import CronRows

LOOK_S_MAX = 1.0
AGAIN_S = 0.02
AHEAD_MS = 10_000
"""What is handled may lie so far ahead of this clock before that counts as a clock that was set back: more than the
clocks of two workers may differ."""
FIRES_KEPT = timedelta(days=30)
FORGET_EVERY = timedelta(days=1)
UNREADABLE_EVERY = timedelta(minutes=1)
REST_FIRST, REST_MAX = timedelta(seconds=1), timedelta(seconds=64)
"""How long a schedule that failed is left alone."""
log = structlog.get_logger("scheduler")


class CronFirer:
    """Fires what is due, for as long as its worker runs."""

    def __init__(self, rows: CronRows, creator: FireCreator, now: Callable[[], datetime]) -> None:
        self._rows, self._creator, self._now = rows, creator, now
        self._timetable: Callable[[CronRule], Timetable] = lru_cache(1_000)(CronRule.timetable)
        self._forget_at: dict[UUID, datetime] = {}
        self._told_at: dict[UUID, datetime] = {}
        self._failing = GrowingRests[UUID](REST_FIRST, REST_MAX, now)

    async def run(self, stop: asyncio.Event) -> None:
        pauses = Pauses()
        while not stop.is_set():
            try:
                wait_s = await self.look()
                pauses.reset()
            except HeadraceError as error:
                if not error.heals:
                    raise
                log.warning("schedules.failing", error=str(error))
                wait_s = pauses.next_s()
            await rest(stop, wait_s)

    async def look(self) -> float:
        """Go on with every schedule by one moment; how long to wait before the next look. One that fails is left alone
        for a while, and the others have had their turn when an error that heals is raised."""
        waits, failure = [LOOK_S_MAX], list[HeadraceError]()
        for schedule in await self._rows.all():
            schedule_id = schedule.schedule_id
            if self._failing.rests(schedule_id):
                continue
            try:
                waits.append(await self.attend(schedule))
                self._failing.worked(schedule_id)
            except HeadraceError as error:
                if not (error.heals or isinstance(error, CallerError)):
                    raise
                rest_s = self._failing.failed(schedule_id).total_seconds()
                log.warning("schedule.failing", schedule=str(schedule_id), rest_s=rest_s, error=str(error))
                failure += [error] if error.heals else []
        if failure:
            raise failure[0]
        return min(waits)

    async def attend(self, schedule: CronSchedule) -> float:
        """Go on with one schedule, as it was seen, by one moment."""
        marks = schedule.marks
        if marks.open_at is not None:
            return await self._finish(schedule, marks.open_at)
        if marks.paused or (timetable := self._readable(schedule)) is None:
            return LOOK_S_MAX
        handled_ms, now_ms = ms_of(marks.handled_at), ms_of(self._now())
        if handled_ms > now_ms + AHEAD_MS:
            # Moments that come again have their rows and their jobs.
            await self._rows.claim(schedule, moment_of_ms(now_ms), None)
            return AGAIN_S
        ripe = ripe_moments(schedule.policy(), timetable, handled_ms, now_ms)
        if ripe.missed:
            log.warning("schedule.missed", schedule=str(schedule.schedule_id), moments=ripe.missed)
        if ripe.chosen:
            moment = moment_of_ms(ripe.chosen[0])
            return await self._finish(schedule, moment) if await self._rows.claim(schedule, moment, moment) else AGAIN_S
        if ripe.handled_ms > handled_ms:
            await self._rows.claim(schedule, moment_of_ms(ripe.handled_ms), None)
            return AGAIN_S
        return max(AGAIN_S, (ripe.due_ms - now_ms) / 1_000)

    async def _finish(self, schedule: CronSchedule, moment: datetime) -> float:
        if not await self._creator.finish(schedule.schedule_id, moment):
            return LOOK_S_MAX
        if self._is_time(self._forget_at, schedule.schedule_id, FORGET_EVERY):
            await self._rows.forget_fires(schedule.schedule_id, moment - FIRES_KEPT)
        return AGAIN_S

    def _readable(self, schedule: CronSchedule) -> Timetable | None:
        """None: this machine does not know its time zone, or this version not its form; another may."""
        try:
            return self._timetable(schedule.rule)
        except CallerError as error:
            if self._is_time(self._told_at, schedule.schedule_id, UNREADABLE_EVERY):
                log.warning("schedule.unreadable", schedule=str(schedule.schedule_id), error=str(error))
            return None

    def _is_time(self, times: dict[UUID, datetime], schedule_id: UUID, every: timedelta) -> bool:
        now = self._now()
        if now < times.get(schedule_id, now):
            return False
        times[schedule_id] = now + every
        return True
