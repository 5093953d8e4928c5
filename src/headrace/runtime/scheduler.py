"""Firing: every worker submits what is due of its flows. No lease is needed for it.

The store says what is due and what time it is; which moments that means follows from the schedule. Whoever is first to
apply its decision wins, and the others find the schedule changed. A worker sleeps until the next one is due, and looks
once a second for schedules that were added meanwhile.
"""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from headrace.core.errors import CallerError, HeadraceError
from headrace.core.jobs import Submission
from headrace.core.parcels import Parcel
from headrace.core.schedules import (
    DueSchedule,
    Fire,
    FireView,
    Firing,
    Schedule,
    fire_key,
    moment_text,
)
from headrace.ports.schedules import Schedules
from headrace.runtime.declared_schedules import declared_schedules
from headrace.runtime.flow import Flow
from headrace.runtime.settler import Outage
from headrace.runtime.submission import root_of
from headrace.runtime.timetable import Timetable, ripe_moments
from headrace.runtime.yard import Yard

LOOK_S_MAX = 1.0
AGAIN_S = 0.02
# Workers that wait for the same moment do not all ask in the same instant.
SPREAD_S = 0.03
UNREADABLE_MS = 60_000
"""How often a worker says that it cannot read a schedule."""


class Scheduler:
    """Fires the schedules of a worker's flows, for as long as the worker runs."""

    def __init__(self, schedules: Schedules, flows: Sequence[Flow], worker: str, yard: Yard) -> None:
        self._schedules, self._worker, self._yard = schedules, worker, yard
        self._flows = {flow.name: flow for flow in flows}
        self._declared = [schedule for flow in flows for schedule in declared_schedules(flow)]
        self._timetable = lru_cache(1_000)(Timetable)
        # When a schedule that cannot be read is spoken of again.
        self._told_ms: dict[str, int] = {}

    async def run(self) -> None:
        names, outage, told = list(self._flows), Outage(self._yard), False
        while not self._yard.draining:
            try:
                if not told:
                    await self._schedules.declare(self._worker, names, self._declared)
                    told = True
                wait_s = await self._look(names)
            except HeadraceError as error:
                if not error.heals:
                    raise
                await outage.wait("store.failing", error)
                continue
            outage.reset()
            await asyncio.sleep(wait_s + SPREAD_S * self._yard.seams.chance.random())

    async def _look(self, flows: Sequence[str]) -> float:
        """Fire what is due; how long to wait before the next look."""
        due = await self._schedules.due(flows)
        readable = [each for each in due.schedules if self._is_readable(each.schedule, due.now_ms)]
        for each in readable:
            firing = self.decide(each, due.now_ms)
            self._tell(firing, await self._schedules.fire(firing))
        if readable:
            return AGAIN_S
        # What nobody here can read stays due.
        return LOOK_S_MAX if due.schedules or due.wait_s is None else min(due.wait_s, LOOK_S_MAX)

    def _is_readable(self, schedule: Schedule, now_ms: int) -> bool:
        """Whether this worker knows its timetable and its time zone. One of another version, or of another machine, may
        know them: so nothing of it is changed, and it is said now and then."""
        try:
            self._timetable(schedule.timetable, schedule.tz)
        except CallerError as error:
            if now_ms >= self._told_ms.get(schedule.name, 0):
                self._told_ms[schedule.name] = now_ms + UNREADABLE_MS
                self._yard.observer.event("schedule.unreadable", schedule=schedule.name, error=str(error))
            return False
        return True

    def _tell(self, firing: Firing, rows: Sequence[FireView]) -> None:
        """What this worker did; the rows of others are theirs to tell."""
        own = {fire.submission.job for fire in firing.fires if fire.submission is not None}
        told = [row for row in rows if row.job in own or not row.job]
        for row in told:
            fields = {"schedule": firing.name, "moment": moment_text(row.moment_ms), "job": row.job}
            self._yard.observer.event(f"schedule.{row.outcome}", **fields, reason=row.reason)
        if firing.missed and (told or not firing.fires):
            self._yard.observer.event("schedule.missed", schedule=firing.name, moments=firing.missed)

    def decide(self, due: DueSchedule, now_ms: int) -> Firing:
        """What becomes of the moments of a schedule up to now."""
        schedule = due.schedule
        timetable = self._timetable(schedule.timetable, schedule.tz)
        # A clock that was set back leaves what is handled ahead of it: what fired meanwhile has its row.
        handled_ms = min(due.handled_ms, now_ms) if due.running else due.handled_ms
        # One that is not running has no moments up to what is handled already.
        ripe = ripe_moments(schedule, timetable, handled_ms, now_ms if due.running else handled_ms)
        fires = [self._fire(schedule, timetable, moment) for moment in ripe.chosen]
        if due.asked_ms is not None:
            fires.append(self._fire(schedule, timetable, due.asked_ms, manual=True))
        marks = (due.handled_ms, ripe.handled_ms, ripe.due_ms)
        return Firing(schedule.name, due.revision, *marks, tuple(fires), ripe.missed)

    def _fire(self, schedule: Schedule, timetable: Timetable, moment_ms: int, manual: bool = False) -> Fire:
        flow = self._flows[schedule.flow]
        try:
            stage = root_of(flow, schedule.stage or None)
        except CallerError as error:
            return Fire(moment_ms, None, manual, str(error))
        payload = schedule.payload
        if payload is None:
            payload = msgspec.msgpack.encode(moment_text(moment_ms, timetable.zone))
        key = fire_key(schedule.name, moment_ms)
        submission = Submission(
            job=self._yard.seams.identity.new(),
            flow=flow.name,
            graph=flow.graph,
            parcels=(Parcel(stage, payload, array("I", [len(payload)])),),
            tenant=schedule.tenant,
            key=key,
            # One moment is one job, also if the payload was changed between two who fire it.
            digest=hashlib.sha256(key.encode()).hexdigest(),
        )
        return Fire(moment_ms, submission, manual)
