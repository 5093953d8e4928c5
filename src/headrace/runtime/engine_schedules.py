"""Schedules as a program uses them: `engine.schedules`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Unpack

import msgspec

from headrace.core.errors import InvalidPayload
from headrace.core.schedules import Schedule, ScheduleView
from headrace.ports.schedules import Schedules
from headrace.ports.seams import Clock
from headrace.runtime.declared_schedules import made_schedule
from headrace.runtime.flow import Flow
from headrace.runtime.schedule_declarations import ScheduleOptions
from headrace.runtime.submission import root_of

Surely = Callable[..., Awaitable[Any]]


class EngineSchedules:
    """Add, change, pause, resume, run and remove schedules. A call whose answer was lost is sent again as it was."""

    def __init__(self, schedules: Schedules, clock: Clock, surely: Surely) -> None:
        self._schedules, self._clock, self._surely = schedules, clock, surely

    async def add(
        self, name: str, flow: Flow | str, when: str | timedelta, stage: str = "", **options: Unpack[ScheduleOptions]
    ) -> None:
        """Submit a flow by the clock: `when` is a cron expression, a duration such as PT5M, or a timedelta.

        Any running worker that has the flow fires; a name is enough. The same again changes nothing, another schedule
        of the name is a `Conflict`.
        """
        await self._surely(self._schedules.add, _schedule(name, (flow, stage), when, options))

    async def set(
        self, name: str, flow: Flow | str, when: str | timedelta, stage: str = "", **options: Unpack[ScheduleOptions]
    ) -> None:
        """Add a schedule, or change the one of this name that was added before for the same flow. A new timetable or
        time zone counts from now. `Conflict`: a flow declares it, or it is another flow's."""
        await self._surely(self._schedules.add, _schedule(name, (flow, stage), when, options), True)

    async def remove(self, name: str) -> bool:
        """Forget a schedule; its jobs stay. False: there is none. `Conflict`: a running worker declares it."""
        return bool(await self._surely(self._schedules.remove, name))

    async def pause(self, name: str) -> bool:
        """Stop firing; False if it was paused before."""
        return bool(await self._surely(self._schedules.set_paused, name, True))

    async def resume(self, name: str) -> bool:
        """Go on from now; what was due during the pause is not made up for. False if it was not paused."""
        return bool(await self._surely(self._schedules.set_paused, name, False))

    async def run(self, name: str) -> bool:
        """Let a worker fire once now, whatever is due. False: one that was asked for earlier is still to come."""
        return bool(await self._surely(self._schedules.run, name, int(self._clock.wall() * 1_000)))

    async def get(self, name: str) -> ScheduleView | None:
        """One schedule with its newest fires; None: there is none."""
        found = await self._schedules.look(name)
        return found[0] if found else None

    async def list(self) -> list[ScheduleView]:
        """All schedules by name, with their newest fires."""
        return await self._schedules.look()


def _schedule(name: str, target: tuple[Flow | str, str], when: str | timedelta, options: ScheduleOptions) -> Schedule:
    """What a program wrote; `target` is a flow and the stage that takes the item."""
    flow, stage = target
    payload = None
    if isinstance(flow, Flow):
        stage = root_of(flow, stage or None)
        payload = flow.stages[stage].codec.encode(options["payload"]) if "payload" in options else None
    elif "payload" in options:
        payload = _plain(options["payload"])
    named = flow.name if isinstance(flow, Flow) else flow
    return made_schedule(name, named, when, options, (stage, payload))


def _plain(value: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except (TypeError, ValueError) as error:
        raise InvalidPayload(f"the payload of a schedule cannot be encoded: {error}") from None
