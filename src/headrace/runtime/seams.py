"""The real time, chance, identity and threads. Nothing else in `runtime/` touches the world by itself."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import uuid_utils

from headrace.ports.seams import Beat, Chance, Clock, Identity, Threads

T = TypeVar("T")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class RealClock:
    def wall(self) -> float:
        return time.time()

    # The function itself, not a method around it: lanes ask for the time after every item.
    monotonic = staticmethod(time.monotonic)

    def boot_id(self) -> str:
        try:
            return _BOOT_ID.read_text().strip()
        except OSError:
            # Without a boot id the moment of the boot stands in for it; rounding hides the drift of the wall clock.
            return f"boot-{round((time.time() - time.monotonic()) / 60)}"


class RealChance:
    def random(self) -> float:
        return random.random()


class RealIdentity:
    def new(self) -> str:
        return str(uuid_utils.uuid7())


class RealBeat:
    """A daemon thread that calls `work` until it is stopped."""

    def __init__(self, every_s: float, work: Callable[[], None]) -> None:
        self._every_s, self._work = every_s, work
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="headrace-heart", daemon=True).start()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            self._work()

    def stop(self) -> None:
        self._stopped.set()


class RealThreads:
    """Daemon threads that are kept for the next call: a handler that never returns must not keep the process."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)

    def beat(self, every_s: float, work: Callable[[], None]) -> Beat:
        return RealBeat(every_s, work)

    def run(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def answer() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = work()
            except BaseException as error:  # user code may raise anything; its lane judges it
                future.set_exception(error)
            else:
                future.set_result(result)

        self._work.put(answer)
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._serve, name="headrace-handler", daemon=True).start()
        return future

    def _serve(self) -> None:
        while True:
            self._work.get()()
            self._idle.release()


@dataclass(frozen=True, slots=True)
class Seams:
    """Everything the runtime knows of the world. The defaults are the real one."""

    clock: Clock = field(default_factory=RealClock)
    chance: Chance = field(default_factory=RealChance)
    identity: Identity = field(default_factory=RealIdentity)
    threads: Threads = field(default_factory=RealThreads)
