"""The processes of a run: workers and reconcilers that are killed, frozen and started anew, and their clocks.

Every process that ever worked is remembered, because its runs are in the history under its process id.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from headrace.errors import OperatorError
from headrace.testing import ServiceProcess
from headrace_scheduler.frame import PROGRAM, service_program

LOOK_S = 0.05
READY_S_MAX = 300.0
CLOCK_FILE = "clock"
SLEEPING = Path(__file__).parent / "faked_clock"


class LifeClock(StrEnum):
    """How right the clock of a process was."""

    RIGHT = "right"
    OFF = "off"
    REFUSED = "refused"
    JUMPED = "jumped"


@dataclass(frozen=True, slots=True)
class WorkerLife:
    """One process: what it was, and its clock."""

    pid: int
    service: str
    clock: LifeClock = LifeClock.RIGHT


@dataclass
class Fleet:
    """`library` is libfaketime's. `program` runs a service by its name."""

    environment: Mapping[str, str]
    folder: Path
    library: Path
    program: Sequence[str] = PROGRAM
    lives: list[WorkerLife] = field(default_factory=list)
    _ready: dict[str, list[ServiceProcess]] = field(default_factory=dict)
    _all: set[ServiceProcess] = field(default_factory=set)
    _starting: set[asyncio.Task[None]] = field(default_factory=set)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def start(self, service: str) -> None:
        """One more of a service, among those that may be chosen."""
        process = await self.start_apart(service)
        self._ready.setdefault(service, []).append(process)

    def start_soon(self, service: str) -> None:
        """In the place of one that is gone."""
        task = asyncio.create_task(self.start(service))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def start_apart(
        self, service: str, clock: LifeClock = LifeClock.RIGHT, more: Mapping[str, str] | None = None
    ) -> ServiceProcess:
        """One that no fault chooses."""
        log = self.folder / f"{service}-{next(self._numbers):04}.log"
        process = ServiceProcess(service_program(service, {**self.environment, **(more or {})}, self.program), log)
        async with asyncio.timeout(READY_S_MAX):
            await process.ready()
        self._all.add(process)
        self.lives.append(WorkerLife(process.pid, service, clock))
        return process

    async def start_skewed(self, clock: LifeClock, offset_s: float) -> ServiceProcess:
        """A worker whose wall clock is off; it keeps time by the machine's monotonic one."""
        return await self.start_apart("worker", clock, self._faked(FAKETIME=f"{offset_s:+.3f}"))

    async def start_jumping(self) -> tuple[ServiceProcess, Path]:
        """A worker whose wall clock is right until its file holds an offset."""
        file = self.folder / f"{CLOCK_FILE}-{next(self._numbers):04}"
        set_clock(file, 0.0)
        more = self._faked(FAKETIME_TIMESTAMP_FILE=str(file), FAKETIME_CACHE_DURATION="1")
        return await self.start_apart("worker", LifeClock.JUMPED, more), file

    async def take(self, service: str, victim: int) -> ServiceProcess:
        """One of a service that is ready; nobody else chooses it until it is put back."""
        while not self._ready.get(service):
            self._raise_failed()
            await asyncio.sleep(LOOK_S)
        ready = self._ready[service]
        return ready.pop(victim % len(ready))

    def put_back(self, process: ServiceProcess) -> None:
        self._ready[process.name].append(process)

    async def end(self) -> None:
        """Stop whatever still runs; what is frozen is woken."""
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await asyncio.gather(*(asyncio.to_thread(process.stop) for process in self._all))

    async def settled(self) -> None:
        """Until everything that is being started is ready."""
        while self._starting:
            await asyncio.gather(*self._starting)

    def gone(self, process: ServiceProcess) -> None:
        self._all.discard(process)

    def _raise_failed(self) -> None:
        if not self._starting and not any(self._ready.values()):
            raise OperatorError("no process of the fleet is ready, and none is being started", f"see {self.folder}")

    def _faked(self, **variables: str) -> dict[str, str]:
        faked = {"LD_PRELOAD": str(self.library), "DONT_FAKE_MONOTONIC": "1", "PYTHONPATH": str(SLEEPING)}
        # Its way around a fault of old C libraries looks for a signal every 30 ms, also where a thread waits for
        # Python's own lock: such a worker hardly ever had an answer before its hold was over.
        return {**faked, "FAKETIME_FORCE_MONOTONIC_FIX": "0", **variables}


def set_clock(file: Path, offset_s: float) -> None:
    """Replaced as a whole: a process that reads half of it would stop."""
    fresh = file.with_suffix(".new")
    fresh.write_text(f"{offset_s:+.3f}")
    fresh.replace(file)
