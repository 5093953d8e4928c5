"""One run: a source in memory, a few real workers on a virtual loop, faults, and a checker of the history.

First chaos, in which only safety counts. Then everything heals, and all items must end in time. At last every worker
that lives is left alone with an item of its own (V4). There is no fault of a blocked loop beside that of a stopped
process: a worker of a source has no thread that would go on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from headrace.core.errors import HeadraceError
from headrace.core.retry import RetryPolicy
from headrace.core.sources import ItemState
from headrace.runtime.seams import Seams
from headrace.runtime.sources.options import SourceOptions
from headrace.runtime.sources.worker import SourceWorker
from headrace.testing.memory_source import MemorySource
from headrace.testing.simulation.faults import CALLS, Faults
from headrace.testing.simulation.loop import CURRENT, Deadlock, Process, VirtualLoop
from headrace.testing.simulation.seams import CountedIdentity, VirtualClock, VirtualThreads
from headrace.testing.simulation.seeds import Report, run_each
from headrace.testing.simulation.sink import SimulatedSink
from headrace.testing.simulation.sources.history import SourceHistory
from headrace.testing.simulation.sources.items import QUICK, ItemPlan, PlannedHandler, draw_deadly, draw_plan
from headrace.testing.simulation.sources.wire import SourceWire
from headrace.testing.simulation.world import LATE_S, Outcome

KINDS = (*CALLS, "mute", "kill", "pause", "drain", "skew", "deaf")
"""Calls that are late, lost, answered into the void, doubled or never answered; kill -9, SIGSTOP past the hold, an
orderly end; a wall clock that jumps; a wake-up that is lost."""

HOLD_S = 2.0
CHAOS_S = 12.0
HEAL_S = 150.0
ALONE_S = 15.0
WORKERS_MAX = 4
ITEMS_MAX = 12
OCCUPIED = 40
"""Items that somebody holds who is no worker: more than a poll asks for."""


@dataclass(frozen=True, slots=True)
class SourceParts:
    """What a planted bug may exchange."""

    source: Callable[[VirtualClock], MemorySource] = MemorySource
    worker: type[SourceWorker] = SourceWorker


@dataclass(slots=True)
class SourceMember:
    """A worker process as the world knows it."""

    process: Process
    clock: VirtualClock
    worker: SourceWorker
    wire: SourceWire


class SourceWorld:
    """Everything one seed decides."""

    def __init__(self, seed: int, parts: SourceParts) -> None:
        self.seed, self.parts = seed, parts
        self.chance = Random(f"source world {seed}")
        self.loop = VirtualLoop(Random(f"source loop {seed}"), self.chance.choice(LATE_S))
        self.faults = Faults.draw(Random(f"source faults {seed}"), KINDS)
        self.history, self.sink, self.hold_s = SourceHistory(), SimulatedSink(), HOLD_S
        self.source = parts.source(VirtualClock(self.loop))
        self.members: list[SourceMember] = []
        self._seen: Counter[str] = Counter()
        self._numbers = CountedIdentity("process")
        self._handler = PlannedHandler(self)

    # What handlers need

    def began(self, key: str, fence: int) -> None:
        self.history.began(self.loop.time(), CURRENT.get().main.name, key, fence)

    def left(self, key: str, fence: int) -> None:
        self.history.left(CURRENT.get().main.name, key, fence)

    async def die(self) -> None:
        member = next((member for member in self.members if member.process is CURRENT.get().main), None)
        if member is not None:
            self.loop.later(self.loop.system, 0.0, self._kill, member)
        await asyncio.Event().wait()

    def stepped(self, key: str, fence: int) -> None:
        self.history.stepped(self.loop.time(), key, fence)

    def believed(self, key: str, fence: int, left_s: float) -> None:
        self.history.believed(self.loop.time(), key, fence, left_s)

    def failed(self, key: str, fence: int) -> None:
        self.history.failed(key, fence)

    def met_outage(self, key: str, fence: int) -> None:
        self.history.met_outage(key, fence)

    def ran(self, key: str, fence: int) -> None:
        self.history.ran(key, fence)

    def seen_before(self, key: str, times: int) -> bool:
        self._seen[key] += 1
        return self._seen[key] > times

    async def effect(self, key: str, fence: int) -> None:
        process = CURRENT.get().main
        member = next(member for member in self.members if member.process is process)
        await member.wire.effect(key, fence, self.sink.put)

    # The run

    def run(self) -> Outcome:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self.loop.spawn(self.loop.system, self._story()))
        except Deadlock as error:
            self.history.found("V1", str(error), self.seed)
        outcome = self._outcome()
        asyncio.set_event_loop(None)
        self.loop.bury()
        return outcome

    def _outcome(self) -> Outcome:
        history, struck = self.history, dict(self.faults.struck)
        state = "open" if history.open else "ended"
        return Outcome(
            self.seed, tuple(history.findings), history.fingerprint, str(self.faults), struck, history.events, 0, state
        )

    async def _story(self) -> None:
        for number in range(self.chance.randint(1, ITEMS_MAX)):
            self._add(f"i{number}", draw_plan(self.chance), self.chance.choice((0.0, 0.0, 1.5)))
        deadly = Random(f"source deadly {self.seed}")
        for number in range(deadly.choice((0, 0, 1, 2))):
            self._add(f"d{number}", draw_deadly(deadly))
        for number in range(Random(f"source occupied {self.seed}").choice((0, OCCUPIED))):
            self.source.add(f"o{number}", QUICK)
            self.source.occupy(f"o{number}")
        for _ in range(self.chance.randint(1, WORKERS_MAX)):
            self.start()
        troubles = [
            self.loop.spawn(self.loop.system, work) for work in (self._plague_processes(), self._plague_clocks())
        ]
        await self._until_ended(CHAOS_S)
        self.faults.healed = True
        for trouble in troubles:
            trouble.cancel()
        for member in self.members:
            self.loop.resume(member.process)
            member.clock.skew_s = 0.0
        if not await self._until_ended(HEAL_S):
            self.history.found("V1", f"open {HEAL_S:g} s after healing", self.history.open)
        for member in list(self.members):
            if not self.history.findings:
                await self._leave_alone(member)
        if not self.history.findings:
            self.history.compare(self.source.rows, self.sink)

    def _add(self, key: str, plan: ItemPlan, delay_s: float = 0.0) -> None:
        self.history.added(key)
        due_at = VirtualClock(self.loop).wall() + delay_s
        self.source.add(key, plan, due_at=due_at, timeout_s=plan.timeout_s)

    async def _until_ended(self, seconds: float) -> bool:
        """Whether all items ended before so much time had passed; a finding ends the run at once."""
        until = self.loop.time() + seconds
        while self.loop.time() < until and self.history.open and not self.history.findings:
            await asyncio.sleep(0.5)
        return not self.history.open or bool(self.history.findings)

    async def _leave_alone(self, member: SourceMember) -> None:
        """V4: a worker takes up what is available. The others are paused, so that none does it in its place."""
        others = [other.process for other in self.members if other is not member]
        for other in others:
            self.loop.pause(other)
        key = f"for {member.process.name}"
        self._add(key, QUICK)
        until = self.loop.time() + ALONE_S
        while self.loop.time() < until and self.history.accounts[key].end is None and member in self.members:
            await asyncio.sleep(0.5)
        # One that was draining has ended as it should.
        if self.history.accounts[key].end is not ItemState.DONE and member in self.members:
            self.history.found("V4", f"an item of its own is open after {ALONE_S:g} s", member.process.name)
        for other in others:
            self.loop.resume(other)
        await self._until_ended(ALONE_S)

    # Processes

    def start(self) -> None:
        """A new worker process, with nothing but the source to go by."""
        process = Process(self._numbers.new())
        clock = VirtualClock(self.loop)
        wire = SourceWire(self, process, self.source)
        chance = Random(f"{self.seed} {process.name}")
        seams = Seams(clock, chance, CountedIdentity(process.name), VirtualThreads(self.loop, process, chance))
        options = SourceOptions(
            "items",
            in_progress_max=3,
            hold_s=HOLD_S,
            timeout_s=60.0,
            retry=RetryPolicy(first_s=0.2, cap_s=2.0),
            grace_s=0.3,
            drain_s=1.0,
            id=process.name,
        )
        worker = self.parts.worker(wire, self._handler, options, seams)
        self.loop.spawn(process, self._live(SourceMember(process, clock, worker, wire)))

    async def _live(self, member: SourceMember) -> None:
        self.members.append(member)
        name = member.process.name
        self.history.note(self.loop.time(), "started", name)
        try:
            await member.worker.run()
        except HeadraceError as error:
            self.history.note(self.loop.time(), "failed", name, error)
        except Exception as error:
            self.history.found("V2", f"a worker ended with {type(error).__name__}: {error}", name)
        self.members.remove(member)
        self.loop.later(self.loop.system, self.chance.random(), self.start)

    # Plagues

    async def _plague_processes(self) -> None:
        while True:
            await asyncio.sleep(self.chance.random() * 1.5)
            for member in list(self.members):
                if self.faults.strikes("kill"):
                    self._kill(member)
                elif self.faults.strikes("pause"):
                    self.history.note(self.loop.time(), "paused", member.process.name)
                    self.loop.pause(member.process)
                    after_s = self.chance.random() * 2.5 * HOLD_S
                    self.loop.later(self.loop.system, after_s, self.loop.resume, member.process)
                elif self.faults.strikes("drain"):
                    self.history.note(self.loop.time(), "drained", member.process.name)
                    end = member.worker.drain if self.chance.random() < 0.5 else member.worker.stop_now
                    self.loop.later(member.process, 0.0, end)

    def _kill(self, member: SourceMember) -> None:
        if member not in self.members:
            return
        self.history.note(self.loop.time(), "killed", member.process.name)
        self.loop.kill(member.process)
        self.members.remove(member)
        self.loop.later(self.loop.system, self.chance.random() * 3, self.start)

    async def _plague_clocks(self) -> None:
        while True:
            await asyncio.sleep(self.chance.random() * 4)
            for member in self.members:
                if self.faults.strikes("skew"):
                    member.clock.skew_s = self.chance.choice((-30.0, -5.0, 0.0, 5.0, 30.0))


def run_source_seed(seed: int, parts: SourceParts | None = None, tell: Callable[[str], None] | None = None) -> Outcome:
    """Run one seed to its end; `tell` is given every line of its trace."""
    world = SourceWorld(seed, parts or SourceParts())
    world.history.tell = tell
    return world.run()


def run_source_seeds(seeds: Iterable[int], parts: SourceParts | None = None, failures_max: int = 10) -> Report:
    """Run seeds until they are through or enough of them have failed."""
    return run_each(seeds, lambda seed: run_source_seed(seed, parts), Report(kinds=KINDS), failures_max)
