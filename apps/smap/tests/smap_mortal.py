"""Processes that die at a chosen step: every call to a part of the world is a place to die, before it or after it."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry

from headrace_smap.parts import SmapParts

CALLS_MAX = 100
HOLD_S = 1e-6
"""For holds by the store's clock: what a dead process held is free at once."""


class Killed(BaseException):
    """The process is no more."""


class Fate:
    """Dies at the call with this number, before or after it; then nothing works any more."""

    def __init__(self, number: int, after: bool) -> None:
        self.number, self.after, self.calls = number, after, 0

    def __str__(self) -> str:
        return f"{self.number} {'after' if self.after else 'before'}"

    async def call(self, work: Callable[..., Awaitable[Any]], *values: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls > self.number or (self.calls == self.number and not self.after):
            raise Killed
        answer = await work(*values, **named)
        if self.calls == self.number:
            raise Killed
        return answer


class Mortal:
    """A part of the world as a process has it that will die."""

    def __init__(self, part: Any, fate: Fate) -> None:
        self._part, self._fate = part, fate

    def __getattr__(self, name: str) -> Any:
        work = getattr(self._part, name)
        if name in ("dialect", "on_wake"):
            return work
        if inspect.isasyncgenfunction(work):
            return lambda *values: self._each(work(*values))
        return lambda *values, **named: self._fate.call(work, *values, **named)

    async def _each(self, found: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for thing in found:
            yield await self._fate.call(_itself, thing)


async def _itself(thing: Any) -> Any:
    return thing


class MortalEngine:
    """The engine of such a process: its outbox is a part like the others."""

    def __init__(self, engine: Any, fate: Fate) -> None:
        self._engine, self.outbox = engine, Mortal(engine.outbox, fate)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def mortal(parts: SmapParts, fate: Fate) -> SmapParts:
    engine: Any = MortalEngine(parts.engine, fate)
    dying = {name: Mortal(getattr(parts, name), fate) for name in ("database", "ledger", "bus", "blobs")}
    return replace(parts, engine=engine, registry=CollectorRegistry(), **dying)


def fates() -> Iterator[Fate]:
    """All places to die at, in the order in which a process comes to them."""
    for number in range(1, CALLS_MAX):
        for after in (False, True):
            yield Fate(number, after)
    raise AssertionError("there is no end of calls")


def unharmed() -> Fate:
    """That of a process that lives."""
    return Fate(10 * CALLS_MAX, False)
