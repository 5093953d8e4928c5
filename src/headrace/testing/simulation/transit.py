"""Calls on their way between a simulated process and what it calls: late, lost, answered into the void, or twice.

A call that was sent belongs to the way: if its process dies meanwhile, it is carried out all the same. It is carried
out at one instant of virtual time, and the history is told at that instant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from headrace.core.errors import HeadraceError, Unknown, Unreachable
from headrace.testing.simulation.faults import Faults
from headrace.testing.simulation.loop import Process, VirtualLoop
from headrace.testing.simulation.run_trace import RunTrace

T = TypeVar("T")
LATENCY_S = 0.004
REPLY_LOST_S = 1.0


class Surface(Protocol):
    """What all ways of a world share."""

    loop: VirtualLoop
    faults: Faults
    hold_s: float

    @property
    def history(self) -> RunTrace: ...


class Transit:
    """The way of one process's calls."""

    def __init__(self, grounds: Surface, process: Process) -> None:
        self._grounds: Surface = grounds
        self._process = process

    def brief(self, result: object) -> object:
        """An answer in few words, the same in every run of a seed."""
        return result

    def carried_out(self, result: object) -> None:
        """A call was carried out, with this answer."""

    async def call(
        self,
        name: str,
        run: Callable[[], Coroutine[Any, Any, T]],
        tell: Callable[[float, T], None] | None = None,
    ) -> T:
        loop, faults = self._grounds.loop, self._grounds.faults
        answer: asyncio.Future[T] = loop.create_future()
        if faults.strikes("drop"):
            sent = faults.chance.random() < 0.5
            error = Unknown(f"{name}: no answer came") if sent else Unreachable(f"{name}: the store does not answer")
            loop.later(loop.system, REPLY_LOST_S if sent else self._latency(), _fail, answer, error)
            return await answer
        there = self._latency()
        loop.later(loop.system, there, self._arrive, name, run, tell, answer)
        if faults.strikes("duplicate"):
            loop.later(loop.system, there + self._latency(), self._arrive, name, run, tell, None)
        return await answer

    def _arrive(
        self,
        name: str,
        run: Callable[[], Coroutine[Any, Any, T]],
        tell: Callable[[float, T], None] | None,
        answer: asyncio.Future[T] | None,
    ) -> None:
        loop, faults, history = self._grounds.loop, self._grounds.faults, self._grounds.history
        at = loop.time()
        try:
            result = at_once(run())
        except HeadraceError as error:
            history.note(at, self._process.name, name, type(error).__name__)
            if answer is not None:
                loop.later(loop.system, self._latency(), _fail, answer, error)
            return
        except Exception as error:
            history.found("V2", f"the store answered {name} with {type(error).__name__}: {error}", self._process.name)
            return
        history.note(at, self._process.name, name, self.brief(result))
        if tell is not None:
            tell(at, result)
        self.carried_out(result)
        if answer is None:
            return
        if faults.strikes("unknown"):
            loop.later(loop.system, REPLY_LOST_S, _fail, answer, Unknown(f"{name}: the answer was lost"))
        else:
            loop.later(loop.system, self._latency(), _answer, answer, result)

    def _latency(self) -> float:
        faults = self._grounds.faults
        if faults.strikes("delay"):
            return faults.chance.random() * 1.5 * self._grounds.hold_s
        return faults.chance.random() * LATENCY_S


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise RuntimeError("the simulated store must answer at once")


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
        # Whoever waited may have been killed meanwhile: nobody has to hear of it.
        answer.exception()


def _answer(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)
