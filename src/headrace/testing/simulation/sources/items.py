"""The items of a simulated source: what each of them does to its handler."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Protocol

from headrace.core.errors import HeadraceError, Unreachable
from headrace.core.outcomes import Dead, Outcome, Retry, Snooze
from headrace.runtime.sources.context import SourceContext

KINDS = ("quick", "quick", "long", "long", "failing", "dead", "snoozing", "outage", "slow", "stubborn")
TIMEOUT_S = 3.0
ALWAYS = 1_000


@dataclass(frozen=True, slots=True)
class ItemPlan:
    """Steps of `step_s` each, and then what its kind says, the first `times` times."""

    kind: str
    steps: int
    step_s: float
    times: int

    @property
    def timeout_s(self) -> float | None:
        return TIMEOUT_S if self.kind in ("slow", "stubborn") else None


def draw_plan(chance: Random) -> ItemPlan:
    kind = chance.choice(KINDS)
    steps = chance.randint(4, 12) if kind == "long" else chance.randint(0, 2)
    return ItemPlan(kind, steps, chance.choice((0.05, 0.3, 0.6)), chance.randint(1, 2))


def draw_deadly(chance: Random) -> ItemPlan:
    """One that kills its process: a few times, or always."""
    return ItemPlan("deadly", chance.randint(0, 2), chance.choice((0.05, 0.3)), chance.choice((1, 2, 3, ALWAYS)))


QUICK = ItemPlan("quick", 1, 0.05, 0)


class HandlerWorld(Protocol):
    """What a handler sees of its world."""

    def began(self, key: str, fence: int) -> None: ...

    def left(self, key: str, fence: int) -> None: ...

    def stepped(self, key: str, fence: int) -> None: ...

    def believed(self, key: str, fence: int, left_s: float) -> None: ...

    async def die(self) -> None:
        """Kill the process that this runs in."""

    def failed(self, key: str, fence: int) -> None: ...

    def met_outage(self, key: str, fence: int) -> None: ...

    def ran(self, key: str, fence: int) -> None: ...

    def seen_before(self, key: str, times: int) -> bool:
        """Whether the item did what its kind says so many times already."""

    async def effect(self, key: str, fence: int) -> None: ...


class PlannedHandler:
    """The one handler of a simulated source."""

    def __init__(self, world: HandlerWorld) -> None:
        self._world = world

    async def __call__(self, plan: ItemPlan, context: SourceContext) -> Outcome | None:
        self._world.began(context.key, context.fence)
        self._world.believed(context.key, context.fence, context._hold.left_s)
        try:
            return await self._run(plan, context)
        finally:
            self._world.left(context.key, context.fence)

    async def _run(self, plan: ItemPlan, context: SourceContext) -> Outcome | None:
        world, key, fence = self._world, context.key, context.fence
        if plan.timeout_s is not None:
            # Calls that hang may make it too late anywhere.
            world.failed(key, fence)
        for step in range(plan.steps):
            await asyncio.sleep(plan.step_s)
            world.stepped(key, fence)
            await context.report({"step": step})
            world.stepped(key, fence)
            world.believed(key, fence, context._hold.left_s)
        answer = await self._turn(plan, context)
        if answer is not None:
            return answer
        try:
            await world.effect(key, fence)
        except HeadraceError:
            world.met_outage(key, fence)
            raise
        world.stepped(key, fence)
        world.ran(key, fence)
        return None

    async def _turn(self, plan: ItemPlan, context: SourceContext) -> Outcome | None:
        world, key, fence = self._world, context.key, context.fence
        match plan.kind:
            case "dead":
                world.failed(key, fence)
                return Dead("of its plan", "plan")
            case "failing" if context.attempt <= plan.times:
                world.failed(key, fence)
                return Retry("of its plan")
            case "slow" if context.attempt <= plan.times:
                await asyncio.sleep(10 * TIMEOUT_S)
            case "stubborn" if context.attempt <= plan.times:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(10 * TIMEOUT_S)
                await asyncio.sleep(TIMEOUT_S)
                world.stepped(key, fence)
            case "deadly" if not world.seen_before(key, plan.times):
                await world.die()
            case "snoozing" if not world.seen_before(key, plan.times):
                return Snooze(1.0)
            case "outage" if not world.seen_before(key, plan.times):
                world.met_outage(key, fence)
                raise Unreachable("what the handler needs is away")
        return None
