"""Schedules: flows that are submitted by the clock, each moment once.

A fire is a row, unique by (schedule, moment), and its job is submitted in the same transaction. Which moments there are
follows from the schedule and is worked out by the caller; the store says what time it is. Every call may be repeated as
it is after a lost answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.schedules import Due, FireView, Firing, Schedule, ScheduleView
from headrace.ports.store import Store


class Schedules(Protocol):
    async def declare(self, worker: str, flows: Sequence[str], declared: Sequence[Schedule]) -> None:
        """A worker starts that has these flows, and these are all the schedules they declare.

        A new one counts from now. One that differs is changed; if its timetable or time zone does, it counts from now.
        What an operator added under the same name for the same flow becomes the declared one; another flow's is a
        `Conflict`. Those that these flows had declared and do not any more stop firing and stay to be seen.
        """

    async def add(self, schedule: Schedule, replace: bool = False) -> None:
        """Add a schedule by hand; it counts from now. The same again changes nothing. Another one of the name is a
        `Conflict`; with `replace` it is changed, unless a flow declares it or it is another flow's, and if its
        timetable or time zone differs, it counts from now."""

    async def remove(self, name: str) -> bool:
        """Forget a schedule and its fires; its jobs stay. False: there is none. `Conflict`: a running worker has the
        flow that declares it, and would bring it back."""

    async def set_paused(self, name: str, paused: bool) -> bool:
        """Stop firing, or go on from now: what was due during a pause is not made up for. False: it was so before.
        `NotFound`: there is none."""

    async def run(self, name: str, moment_ms: int) -> bool:
        """Ask for one fire now, also of a paused schedule and whatever its overlap says; a worker makes it under this
        moment. False: another one was asked for and is not made yet. `NotFound`: there is no such schedule."""

    async def due(self, flows: Sequence[str]) -> Due:
        """Schedules of these flows whose time has come by the store's clock, that have not been looked at since they
        were changed, that an operator wants to run, or that are handled to a moment ahead of the clock. It locks and
        changes nothing."""

    async def fire(self, firing: Firing) -> list[FireView]:
        """Apply a firing if the schedule is as it was seen: all of it in one transaction, jobs included.

        A moment that has its row is not fired again. If overlap is `skip` and the job of the fire before is open, the
        row says so and there is no job. The answer is the rows of these moments, whoever made them; none for a moment
        that is not fired because the schedule had changed.
        """

    async def look(self, name: str | None = None) -> list[ScheduleView]:
        """All schedules by name, or the one of this name, with their newest fires, in one snapshot."""


class ScheduledStore(Store, Protocol):
    """What a worker works on: a store with its schedules."""

    @property
    def schedules(self) -> Schedules: ...
