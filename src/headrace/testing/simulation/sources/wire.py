"""A source as one simulated process sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from headrace.core.sources import HeldItem, ItemCandidate, ItemSettlement, Polled
from headrace.testing.memory_source import MemorySource
from headrace.testing.simulation.loop import Process
from headrace.testing.simulation.sources.history import SourceHistory
from headrace.testing.simulation.transit import LATENCY_S, Surface, Transit

T = TypeVar("T")


class SourceGrounds(Surface, Protocol):
    """What the wires of a world with a source share."""

    @property
    def history(self) -> SourceHistory: ...


class SourceWire(Transit):
    """Calls of the source and of the sink travel here; some are never answered at all."""

    def __init__(self, grounds: SourceGrounds, process: Process, source: MemorySource) -> None:
        super().__init__(grounds, process)
        self._history, self._source = grounds.history, source
        self.features = source.features

    async def poll(self, count_max: int) -> Polled:
        return await self.call("poll", lambda: self._source.poll(count_max))

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        return await self.call(
            "hold",
            lambda: self._source.hold(candidate, holder, hold_s),
            lambda at, held: self._history.granted(at, holder, held, hold_s),
        )

    async def begin_alone(self, held: HeldItem) -> bool:
        return await self.call(
            f"begin_alone {held.key}",
            lambda: self._source.begin_alone(held),
            lambda at, accepted: self._history.began_alone(at, held, accepted),
        )

    async def renew(self, held: HeldItem, hold_s: float) -> bool:
        return await self.call(
            f"renew {held.key}",
            lambda: self._source.renew(held, hold_s),
            lambda at, kept: self._history.renewed(at, held, kept, hold_s),
        )

    async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
        return await self.call(
            f"settle {held.key} {settlement.state}",
            lambda: self._source.settle(held, settlement),
            lambda at, accepted: self._history.ended(at, held, settlement, accepted),
        )

    async def give_back(self, held: HeldItem) -> bool:
        return await self.call(
            f"give_back {held.key}",
            lambda: self._source.give_back(held),
            lambda at, accepted: self._history.ended(at, held, None, accepted),
        )

    async def report(self, held: HeldItem, progress: Mapping[str, object]) -> bool:
        return await self.call(f"report {held.key}", lambda: self._source.report(held, progress))

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        def heard() -> None:
            if not self._grounds.faults.strikes("deaf"):
                self._grounds.loop.later(self._process, LATENCY_S, ring)

        return self._source.on_wake(heard)

    async def effect(self, key: str, fence: int, apply: Callable[[str, int], bool]) -> bool:
        async def run() -> bool:
            return apply(key, fence)

        # Answered in the end: a handler that waits for ever is another fault, which its timeout ends.
        return await super().call(f"put {key} {fence}", run)

    async def call(
        self,
        name: str,
        run: Callable[[], Coroutine[Any, Any, T]],
        tell: Callable[[float, T], None] | None = None,
    ) -> T:
        loop, faults = self._grounds.loop, self._grounds.faults
        if faults.strikes("mute"):
            # Carried out or not, nobody is ever told: a connection that hangs.
            if faults.chance.random() < 0.5:
                loop.later(loop.system, self._latency(), self._arrive, name, run, tell, None)
            never: asyncio.Future[T] = loop.create_future()
            return await never
        return await super().call(name, run, tell)

    def brief(self, result: object) -> object:
        match result:
            case Polled():
                return [candidate.key for candidate in result.candidates]
            case HeldItem():
                return (result.key, result.fence, result.attempts)
        return result
