"""One run: a store in memory, a few real workers on a virtual loop, a job, faults, and somebody who watches.

First chaos, in which only safety counts. Then everything heals, and the job must end in time. At last every worker
that lives is left alone with a job of its own: one that hangs is hidden by the others as long as they go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import apsw

from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.statements import load_statements
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.errors import HeadraceError
from headrace.core.jobs import DeadFilter, Submission
from headrace.core.losses import charge
from headrace.core.recount import Finding, explain_open
from headrace.core.tally import JobState
from headrace.ports.parts import Parts
from headrace.runtime.codec import pack_values
from headrace.runtime.seams import Seams
from headrace.runtime.worker import Worker
from headrace.runtime.yard import WorkerOptions
from headrace.testing.simulation.faults import Faults
from headrace.testing.simulation.flows import ITEMS_MAX, PLAIN, Parcelled, RandomFlow, is_slow
from headrace.testing.simulation.history import History
from headrace.testing.simulation.loop import CURRENT, Deadlock, Process, VirtualLoop
from headrace.testing.simulation.seams import CountedIdentity, VirtualClock, VirtualThreads
from headrace.testing.simulation.sink import SimulatedSink
from headrace.testing.simulation.ticks import SHARE, Ticks
from headrace.testing.simulation.transit import at_once
from headrace.testing.simulation.wire import Wire
from headrace.testing.witness import Witness

HOLD_S = 2.0
CHAOS_S = 12.0
HEAL_S = 120.0
TICK_ON_S = 9.0
ALONE_S = 15.0
WORKERS_MAX = 4
LOOK_EVERY = 4
SLOW_ITEMS_MAX = 30
LATE_S = (0.0, 0.0, 0.001, 0.05)
JOB = "job-1"


@dataclass(frozen=True, slots=True)
class SimulatedParts:
    """What a planted bug may exchange."""

    statements: Callable[[dict[str, str]], Mapping[str, str]] = dict
    store: type[SqliteStore] = SqliteStore
    judge: Callable[..., Any] = charge
    worker: type[Worker] = Worker
    sink: Callable[[], SimulatedSink] = SimulatedSink
    prepare: Callable[[apsw.Connection], None] = lambda connection: None
    hasty: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed came to."""

    seed: int
    findings: tuple[Finding, ...]
    fingerprint: str
    faults: str
    struck: Mapping[str, int]
    events: int
    staged: int
    state: str


@dataclass(slots=True)
class Member:
    """A worker process as the world knows it."""

    process: Process
    clock: VirtualClock
    worker: Worker
    wire: Wire


class World:
    """Everything one seed decides."""

    def __init__(self, seed: int, parts: SimulatedParts) -> None:
        self.seed, self.parts = seed, parts
        self.chance = Random(f"world {seed}")
        late_s = max(LATE_S) if is_slow(seed) else Random(f"late {seed}").choice(LATE_S)
        self.loop = VirtualLoop(Random(f"loop {seed}"), late_s)
        self.faults = Faults.draw(Random(f"faults {seed}"))
        self.history, self.witness, self.sink = History(handlers=True), Witness(), parts.sink()
        self.hold_s = HOLD_S
        self.database = InlineDatabase()
        self.database.connection.execute("CREATE TABLE recorded (key TEXT, fence INTEGER)")
        parts.prepare(self.database.connection)
        self.statements = parts.statements(load_statements())
        self.clock = VirtualClock(self.loop)
        self.truth = self._handle(self.clock)
        self.declared = RandomFlow(seed, self.faults.has("poison"), self)
        self.ticks = Ticks(seed, self) if seed % SHARE == 0 else None
        self.members: list[Member] = []
        self.ended = asyncio.Event()
        self._snoozed: set[str] = set()
        self._numbers = CountedIdentity("process")
        self._submitted = 0
        self._changes = 0

    # What the wires and the handlers need

    def changed(self) -> None:
        """Look at the account: in every fourth world after each call that changed it, else after every fourth one."""
        if not self._submitted or self.history.findings:
            return
        self._changes += 1
        if self.seed % LOOK_EVERY and self._changes % LOOK_EVERY:
            return
        self.history.findings += self.witness.look(at_once(self.truth.audit(JOB)))

    async def effect(self, kind: str, key: str, fence: int) -> None:
        member, apply = self._here(), self.sink.once if kind == "once" else self.sink.put
        applied = member.wire.effect(kind, key, fence, apply)
        if self.parts.hasty:
            self.loop.spawn(member.process, _unheard(applied))
        else:
            await applied

    async def poison(self) -> None:
        self.faults.struck["poison"] += 1
        self.history.note(self.loop.time(), "poison", CURRENT.get().name)
        self.kill(self._here())
        await asyncio.Event().wait()

    def snoozed(self, key: str) -> bool:
        before = key in self._snoozed
        self._snoozed.add(key)
        return before

    def scheduled(self) -> None:
        if self.ticks is not None:
            self.ticks.declared(self.clock.wall())

    def ran(self, key: str, fence: int) -> None:
        self.history.ran(key, fence)

    def met_outage(self, key: str, fence: int) -> None:
        self.history.met_outage(key, fence)

    def _here(self) -> Member:
        process = CURRENT.get().main
        return next(member for member in self.members if member.process is process)

    # The run

    def run(self) -> Outcome:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self.loop.spawn(self.loop.system, self._story()))
        except Deadlock as error:
            self.history.found("V1", str(error), JOB)
        outcome = self._outcome()
        asyncio.set_event_loop(None)
        self.loop.bury()
        return outcome

    def _outcome(self) -> Outcome:
        return Outcome(
            self.seed,
            tuple(self.history.findings),
            self.history.fingerprint,
            str(self.faults),
            dict(self.faults.struck),
            self.history.events,
            self.history.staged_count,
            str(at_once(self.truth.job(JOB)).state),
        )

    async def _story(self) -> None:
        at_once(self.truth.submit(self._first_submission()))
        self.changed()
        for _ in range(self.chance.randint(1, WORKERS_MAX)):
            self.start()
        plagues = [self._plague_processes(), self._plague_clocks(), self._operate()]
        troubles = [self.loop.spawn(self.loop.system, plague) for plague in plagues]
        await self._until_ended(JOB, CHAOS_S)
        self.faults.healed = True
        for trouble in troubles:
            trouble.cancel()
        self._heal()
        if not await self._until_ended(JOB, HEAL_S) and not self.history.findings:
            self.history.found(
                "V1", "; ".join(explain_open(at_once(self.truth.audit(JOB)))), f"{HEAL_S} s after healing"
            )
        await self._tick_on()
        self._judge()
        for member in list(self.members):
            if not self.history.findings:
                await self._leave_alone(member)

    async def _tick_on(self) -> None:
        """Let the last moments fire by clocks that are right, and look at all of them."""
        if self.ticks is None or self.history.findings:
            return
        for member in self.members:
            member.clock.skew_s = 0.0
        if "skew" in self.faults.rates:
            self.ticks.set_right(self.clock.wall())
        await asyncio.sleep(TICK_ON_S)
        self.ticks.check(self.database.connection, self.history, self.clock.wall())

    async def _leave_alone(self, member: Member) -> None:
        """V4: a worker takes up what is available. The others are paused, so that nobody does it in its place."""
        others = [other.process for other in self.members if other is not member]
        for other in others:
            self.loop.pause(other)
        job = f"{JOB} of {member.process.name}"
        at_once(self.truth.submit(self._submission(job, [PLAIN])))
        # One that was draining has ended as it should.
        if not await self._until_ended(job, ALONE_S) and member in self.members:
            self.history.found("V4", f"a job of its own is open after {ALONE_S:g} s", member.process.name)
        for other in others:
            self.loop.resume(other)

    def _first_submission(self) -> Submission:
        most = SLOW_ITEMS_MAX if self.declared.slow else 2 if self.declared.scattered else ITEMS_MAX // 2
        count = self._submitted = self.chance.randint(1, most)
        submission = self._submission(JOB, [f"i{number}" for number in range(count)])
        return replace(submission, delay_s=self.chance.choice((0.0, 0.0, 0.0, 1.5)))

    def _submission(self, job: str, names: Sequence[str]) -> Submission:
        flow = self.declared.flow
        items = [Parcelled(name) for name in names]
        return Submission(job, flow.name, self.declared.graph, tuple(pack_values(flow.stages["find"].codec, items)))

    async def _until_ended(self, job: str, seconds: float) -> bool:
        """Whether a job ended before so much time had passed; a finding ends the run at once."""
        until = self.loop.time() + seconds
        while self.loop.time() < until and not self.history.findings:
            if at_once(self.truth.job(job)).state is not JobState.OPEN and not self._wants_redrive():
                return True
            await asyncio.sleep(0.5)
            if self.faults.healed:
                # An operator's last pause may still have been under way.
                at_once(self.truth.resume(job))
        return at_once(self.truth.job(job)).state is not JobState.OPEN

    def _wants_redrive(self) -> bool:
        """Whether the operator still has something to take up, while there are faults."""
        view = at_once(self.truth.job(JOB))
        letters = at_once(self.truth.dead(DeadFilter(job=JOB)))
        return self.faults.has("operator") and view.generation < 3 and bool(letters)

    def _judge(self) -> None:
        audit, view = at_once(self.truth.audit(JOB)), at_once(self.truth.job(JOB))
        self.history.findings += self.witness.look(audit)
        self.history.findings += self.witness.compare(audit, view)
        if view.state is JobState.OPEN or self.history.findings:
            return
        self.history.compare(audit, view.graph, self._submitted)
        self.history.check_losses(at_once(self.truth.dead(DeadFilter(job=JOB))), view.graph)
        rows = self.database.connection.execute("SELECT key, count(*) FROM recorded GROUP BY key").fetchall()
        self.history.check_sink(self.sink, {str(key): int(str(times)) for key, times in rows})

    # Processes

    def start(self) -> None:
        """A new worker process, with nothing but the store to go by."""
        process = Process(self._numbers.new())
        clock = VirtualClock(self.loop, skew_s=self.chance.choice((0.0, 0.0, -30.0, 30.0)))
        if not self.faults.has("skew"):
            clock.skew_s = 0.0
        wire = Wire(self, process, self._handle(clock))
        chance = Random(f"{self.seed} {process.name}")
        seams = Seams(clock, chance, CountedIdentity(process.name), VirtualThreads(self.loop, process, chance))
        options = WorkerOptions(hold_s=HOLD_S, poll_s=1.0, partial_s=0.5, grace_s=0.5, id=process.name)
        self.loop.spawn(process, self._live(process, clock, wire, (seams, options)))

    async def _live(self, process: Process, clock: VirtualClock, wire: Wire, how: tuple[Seams, WorkerOptions]) -> None:
        seams, options = how
        flows = [self.declared.flow] if self.ticks is None else [self.declared.flow, self.ticks.flow]
        worker = self.parts.worker(wire, flows, seams, options)
        member = Member(process, clock, worker, wire)
        self.members.append(member)
        self.history.note(self.loop.time(), "started", process.name)
        try:
            await worker.run()
        except HeadraceError as error:
            self.history.note(self.loop.time(), "failed", process.name, error)
        except Exception as error:
            self.history.found("V2", f"a worker ended with {type(error).__name__}: {error}", process.name)
        self.members.remove(member)
        self.loop.later(self.loop.system, self.chance.random(), self.start)

    def kill(self, member: Member) -> None:
        self.history.note(self.loop.time(), "killed", member.process.name)
        self.loop.kill(member.process)
        self.members.remove(member)
        self.loop.later(self.loop.system, self.chance.random() * 3, self.start)

    def _handle(self, clock: VirtualClock) -> Parts:
        return self.parts.store(self.database, clock, self.statements, self.parts.judge)

    def _heal(self) -> None:
        for member in self.members:
            self.loop.resume(member.process)

    # Plagues

    async def _plague_processes(self) -> None:
        while True:
            await asyncio.sleep(self.chance.random() * 1.5)
            if self.declared.slow and self.faults.strikes("kill"):
                # A slow world stands on one machine. When that fails, there are claims of many suspects.
                for member in list(self.members):
                    self.kill(member)
            for member in list(self.members):
                if self.faults.strikes("kill"):
                    self.kill(member)
                elif self.faults.strikes("pause"):
                    self._stop(member, self.loop.pause, 2.5 * HOLD_S)
                elif self.faults.strikes("block"):
                    self._stop(member, self.loop.block, 2.5 * HOLD_S)
                elif self.faults.strikes("drain"):
                    self.history.note(self.loop.time(), "drained", member.process.name)
                    end = member.worker.drain if self.chance.random() < 0.5 else member.worker.stop_now
                    self.loop.later(member.process, 0.0, end)

    def _stop(self, member: Member, stop: Callable[[Process], None], seconds_max: float) -> None:
        self.history.note(self.loop.time(), stop.__name__, member.process.name)
        stop(member.process)
        self.loop.later(self.loop.system, self.chance.random() * seconds_max, self.loop.resume, member.process)

    async def _plague_clocks(self) -> None:
        while True:
            await asyncio.sleep(self.chance.random() * 4)
            for member in self.members:
                if self.faults.strikes("skew"):
                    member.clock.skew_s = self.chance.choice((-30.0, -5.0, 0.0, 5.0, 30.0))

    async def _operate(self) -> None:
        """An operator who cancels seldom, pauses for a while, and redrives what died, whole or in part."""
        wire = Wire(self, self.loop.system, self._handle(VirtualClock(self.loop)))
        while True:
            await asyncio.sleep(self.chance.random() * 6)
            if not self.faults.has("operator") or self.chance.random() < 0.5:
                continue
            self.faults.struck["operator"] += 1
            verb = self.chance.choice(("pause", "resume", "resume", "redrive", "redrive", "redrive", "cancel"))
            calls: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
                "pause": lambda: wire.pause(JOB),
                "resume": lambda: wire.resume(JOB),
                "redrive": lambda: wire.redrive(DeadFilter(job=JOB, limit=self.chance.choice((1, 1_000)))),
                "cancel": lambda: wire.cancel(JOB),
            }
            try:
                await calls[verb]()
            except HeadraceError as error:
                self.history.note(self.loop.time(), verb, type(error).__name__)


async def _unheard(work: Coroutine[Any, Any, object]) -> None:
    with suppress(HeadraceError):
        await work


def run_seed(seed: int, parts: SimulatedParts | None = None, tell: Callable[[str], None] | None = None) -> Outcome:
    """Run one seed to its end; `tell` is given every line of its trace."""
    world = World(seed, parts or SimulatedParts())
    world.history.tell = tell
    return world.run()
