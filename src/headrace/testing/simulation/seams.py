"""The seams of one simulated process: its clock, chance, identity and threads, all on the virtual loop."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from random import Random
from typing import TypeVar

from headrace.testing.simulation.loop import Process, VirtualLoop

T = TypeVar("T")
EPOCH = 1_700_000_000.0
BOOTED = 5_000.0


class VirtualClock:
    """The machine's monotonic clock, and a wall clock that is wrong by `skew_s`."""

    def __init__(self, loop: VirtualLoop, skew_s: float = 0.0) -> None:
        self._loop = loop
        self.skew_s = skew_s

    def wall(self) -> float:
        return EPOCH + self._loop.time() + self.skew_s

    def monotonic(self) -> float:
        return BOOTED + self._loop.time()

    def boot_id(self) -> str:
        return "boot-1"


class CountedIdentity:
    """Ids in the order of asking, the same in every run of a seed."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._numbers = count(1)

    def new(self) -> str:
        return f"{self._prefix}-{next(self._numbers):06d}"


class VirtualBeat:
    def __init__(self) -> None:
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True


class VirtualThreads:
    """A beating heart and blocking work as threads of one simulated process."""

    def __init__(self, loop: VirtualLoop, process: Process, chance: Random) -> None:
        self._loop = loop
        self._process = process
        self._chance = chance

    def beat(self, every_s: float, work: Callable[[], None]) -> VirtualBeat:
        beat = VirtualBeat()
        heart = self._process.thread("heart")

        def once() -> None:
            if not beat.stopped:
                work()
                self._loop.later(heart, every_s, once)

        self._loop.later(heart, every_s, once)
        return beat

    def run(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def answer() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = work()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._loop.later(self._process.thread("handler"), self._chance.random() * 0.1, answer)
        return future
