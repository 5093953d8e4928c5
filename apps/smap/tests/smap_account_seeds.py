"""A small world in which everything that can interleave does: collector, workers and reconciler over one account.

No loop and no threads: processes are coroutines, one step of one of them at a time, chosen by the seed. A step ends
where a part is called. There a process may be killed (it is dropped where it stands, and nothing of it runs any more),
a call may fail before or after it was carried out, and the ledger may lose what it had or fall back to an earlier
moment. Chaos first, then everything heals and must come to its end. In some worlds the collector or one of the workers
is somebody else's and writes to the hash as the specification shows it; then only what such a service can bear happens.
A scribbler writes later states into the hash while our collector still crawls.
"""

from __future__ import annotations

import json
import types
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from smap_accounts import Clock, InlineDatabase, MemoryBus, MemoryLedger, MemoryParts

from headrace.errors import Unreachable
from headrace.ports import Delivery, Event
from headrace_smap.count.accountant import Accountant, ItemEnd
from headrace_smap.count.completions import Completions
from headrace_smap.count.reconciliation.reconciler import Reconciler
from headrace_smap.count.truth import rank
from headrace_smap.envelope import JOB_COMPLETED
from headrace_smap.values import CRAWLING, DONE, INITIALIZING, PROCESSING, PROCESSING_WAIT, SEALED

P = "proj_abc"
CHAOS_STEPS = 400
HEAL_STEPS = 4_000
FAULTS = ("kill", "refuse", "unknown", "lose", "flush", "stump")
BEARABLE = {
    "nobody": FAULTS[:5],
    "scribbler": FAULTS[:5],
    "collector": FAULTS[:3],
    "worker": ("refuse", "unknown", "stump"),
}
"""What a stranger wrote and nobody saw is lost with the ledger, and what it counts twice is counted twice. So beside a
stranger that counts the ledger is only flushed when all of it was seen; what it counts next makes a stump of a hash."""
PICTURES_MAX = 3
LOOKS = 6
"""How often the reconciler looks after everything has healed."""


@types.coroutine
def pause() -> Generator[None, None, None]:
    yield


@dataclass
class Kinds:
    """What a world is made of; a twin puts something broken in a place."""

    accountant: type[Accountant] = Accountant
    reconciler: type[Reconciler] = Reconciler
    ledger: type[MemoryLedger] = MemoryLedger


@dataclass
class Process:
    """A program that is started again when it was killed."""

    name: str
    program: Callable[[Process], Coroutine[Any, Any, None]]
    running: Coroutine[Any, Any, None] | None = None
    finished: bool = False
    held: list[str] = field(default_factory=list)


class SmallWorld:
    """One seed. `fired` counts what broke; `problems` is what must not be."""

    def __init__(self, seed: int, database: InlineDatabase, kinds: Kinds) -> None:
        self.random = Random(seed)
        self.kinds, self.clock = kinds, Clock()
        database.empty()
        self.parts = MemoryParts(database=database, ledger=kinds.ledger(), bus=MemoryBus(on_publish=self._told))
        self.items = [f"raw/{number}" for number in range(self.random.randint(0, 6))]
        self.bad = {item for item in self.items if self.random.random() < 0.3}
        self.queue: list[str] = []
        self.stranger = self.random.choice(["nobody", "nobody", "collector", "worker", "scribbler"])
        bearable = BEARABLE[self.stranger]
        self.faults = {kind: kind in bearable and self.random.random() < 0.6 for kind in FAULTS}
        self.duplicates = 0.0 if self.stranger == "worker" else 0.2
        self.heard, self.is_telling, self.is_looking = 0, False, False
        self.fired: Counter[str] = Counter()
        self.problems: list[str] = []
        self.chaos, self.pages_told, self.sealed, self.graveyard = True, 0, False, list[Any]()
        self.best, self.looks = (-1, -1), 0
        self.pictures = [self.parts.ledger.picture()]
        collect = self._collect_as_a_stranger if self.stranger == "collector" else self._collect
        work = self._work_as_a_stranger if self.stranger == "worker" else self._work
        programs = [collect, self._work, work, self._reconcile]
        programs += [self._scribble] if self.stranger == "scribbler" else []
        self.processes = [Process(f"{each.__name__}{place}", each) for place, each in enumerate(programs)]

    def run(self) -> None:
        for _ in range(self.random.randint(20, CHAOS_STEPS)):
            self._step()
        self.chaos = False
        for _ in range(HEAL_STEPS):
            if self._at_rest():
                break
            self._step()
        self._judge()
        for coroutine in self.graveyard:
            coroutine.close()
        for process in self.processes:
            if process.running:
                process.running.close()

    # The programs

    async def _collect(self, process: Process) -> None:
        accountant = self._accountant(process)
        await self._surely(lambda: accountant.open(P))
        while self.pages_told < len(self.items):
            page = self.items[self.pages_told : self.pages_told + 2]
            found = self.pages_told + len(page)
            self.parts.database.connection.execute("UPDATE smap_project SET found = ?", (found,))
            await self._surely(lambda found=found: accountant.expect(P, found))
            self._tell_of(page)
        self.sealed = True
        await self._surely(lambda: accountant.seal(P, len(self.items)))

    async def _collect_as_a_stranger(self, process: Process) -> None:
        """Step 2 and §4.1, with plain HSET, each by itself."""
        hashes = self.parts.ledger.hashes
        hashes.setdefault(P, {"status": INITIALIZING, "total": 0, "done": 0, "errors": 0})
        while self.pages_told < len(self.items):
            page = self.items[self.pages_told : self.pages_told + 2]
            await pause()
            hashes[P]["total"] = self.pages_told + len(page)
            await pause()
            hashes[P]["status"] = CRAWLING
            await pause()
            self._tell_of(page)
        await pause()
        self.sealed = True
        hashes[P]["status"] = PROCESSING_WAIT

    def _tell_of(self, page: list[str]) -> None:
        self.queue += page + [item for item in page if self.random.random() < self.duplicates]
        self.pages_told += len(page)

    async def _work(self, process: Process) -> None:
        accountant = self._accountant(process)
        while True:
            while not self.queue:
                await pause()
            count = min(len(self.queue), self.random.randint(1, 3))
            process.held = [self.queue.pop(self.random.randrange(len(self.queue))) for _ in range(count)]
            ends = [ItemEnd(P, item, item not in self.bad, body=b"{}") for item in process.held]
            await self._surely(lambda ends=ends: accountant.settle(ends))
            process.held = []

    async def _work_as_a_stranger(self, process: Process) -> None:
        """Step 3 and §4.1: an increment, a look, a look, and then perhaps the end."""
        while True:
            while not self.queue:
                await pause()
            item = self.queue.pop()
            process.held = [item]
            done = self._add("done", 1)
            if item in self.bad:
                self._add("errors", 1)
            await pause()
            total = self._hash().get("total", 0)
            await pause()
            if 0 < total <= done and self._hash().get("status") not in (None, CRAWLING, DONE):
                self.is_telling = True
                await pause()
                self._hash()["status"] = DONE
                await pause()
                await self.parts.bus.publish([Event("evt_stranger", JOB_COMPLETED, b'{"project_id": "proj_abc"}')])
                self.is_telling = False
            process.held = []

    async def _scribble(self, process: Process) -> None:
        """Somebody's idea of what the state should be, as long as there is anything to disturb."""
        while self.chaos and not self.sealed:
            await pause()
            shown = self.parts.ledger.hashes.get(P)
            if shown is not None and not self.sealed and self.random.random() < 0.3:
                shown["status"] = self.random.choice([PROCESSING_WAIT, PROCESSING, DONE])
                self.fired["scribble"] += 1

    def _hash(self) -> dict[str, Any]:
        shown: dict[str, Any] = self.parts.ledger.hashes.setdefault(P, {})
        return shown

    def _add(self, name: str, by: int) -> int:
        shown = self._hash()
        shown[name] = shown.get(name, 0) + by
        return int(shown[name])

    async def _reconcile(self, process: Process) -> None:
        opened = self.parts.opened(self._passing)
        reconciler = self.kinds.reconciler(opened, self.kinds.accountant(opened, self.clock), self.clock)
        completions = Completions(opened.database, self.clock)
        while True:
            news = self.parts.bus.published[self.heard :]
            heard = [Delivery("smap.completions", 1, 1, event) for event in news]
            await self._surely(lambda heard=heard: completions.handle(heard))
            self.heard += len(news)
            self.is_looking = True
            await self._surely(reconciler.tick)
            self.is_looking = False
            # A stranger that is about to tell of the end does so within two seconds.
            self.clock.forward(0 if self.is_telling else 1)
            self.looks += not self.chaos
            await pause()

    def _accountant(self, process: Process) -> Accountant:
        return self.kinds.accountant(self.parts.opened(self._passing), self.clock)

    async def _surely(self, call: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        while True:
            try:
                await call()
                return
            except Unreachable:
                await pause()

    # Chance

    def _step(self) -> None:
        process = self.random.choice([process for process in self.processes if self._is_ready(process)])
        if process.running is None:
            process.running = process.program(process)
        elif self._happens("kill", 0.02):
            self._kill(process)
            return
        try:
            process.running.send(None)
        except StopIteration:
            process.running, process.finished = None, True
        self._disturb()
        self._watch()

    def _is_ready(self, process: Process) -> bool:
        works = process.program in (self._work, self._work_as_a_stranger)
        waits_for_work = works and not process.held and not self.queue
        return not (process.finished or waits_for_work)

    def _kill(self, process: Process) -> None:
        # Never closed while the world runs: that would run what a killed process does not.
        self.graveyard.append(process.running)
        process.running = None
        self.queue += process.held
        process.held = []

    async def _passing(self, name: str) -> None:
        await pause()
        if self._happens("refuse" if name.startswith("before") else "unknown", 0.04):
            raise Unreachable(name)

    def _disturb(self) -> None:
        ledger = self.parts.ledger
        if self._happens("lose", 0.02):
            ledger.lose(self.random.choice(self.pictures))
            self.best = (-1, -1)
        if self._happens("flush", 0.01):
            ledger.flush()
            self.best = (-1, -1)
        if self.faults["stump"] and self._all_is_seen() and self._happens("stump", 0.3):
            ledger.flush()
            self.best = (-1, -1)
        if self.chaos and self.faults["lose"] and self.random.random() < 0.1:
            self.pictures = [*self.pictures[-PICTURES_MAX:], ledger.picture()]

    def _all_is_seen(self) -> bool:
        """Nothing of what a stranger counted is in the ledger only, and nobody works with what it was before."""
        seen = self.parts.ledger._standing(P)
        row = self.parts.database.one("SELECT others, others_failed FROM smap_project")
        if seen is None or row is None or self.is_looking:
            return False
        return bool(row == (seen.done - seen.counted, seen.errors - seen.failed))

    def _happens(self, kind: str, chance: float) -> bool:
        happens = self.chaos and self.faults[kind] and self.random.random() < chance
        self.fired[kind] += happens
        return happens

    # Judgement

    def _told(self, event: Event) -> None:
        self.clock.forward(0.01)
        if event.topic == JOB_COMPLETED and not self.sealed:
            self.problems.append("announced before the seal")

    def _watch(self) -> None:
        """What must hold after every step."""
        shown = self.parts.ledger.hashes.get(P)
        if shown is None or len(shown) < 4:
            return
        scribbled = self.stranger == "scribbler"
        if shown["status"] in SEALED and not self.sealed and not scribbled:
            self.problems.append("sealed by nobody")
        if shown["done"] > shown["total"] and shown["status"] in SEALED and not scribbled:
            self.problems.append("more done than there are")
        place = (0 if scribbled else rank(shown["status"]), shown["done"])
        if place[0] < self.best[0] or place[1] < self.best[1]:
            self.problems.append(f"from {self.best} back to {place}")
        self.best = place
        if shown["status"] == DONE and self.fired["done"] == 0 and not scribbled:
            self.fired["done"] = 1
            (settled,) = self.parts.database.one("SELECT count(*) FROM smap_item")
            if settled < len(self.items) and self.stranger != "worker":
                self.problems.append("done before everything was written down")

    def _at_rest(self) -> bool:
        if self.looks < LOOKS or self.queue or any(process.held for process in self.processes):
            return False
        row = self.parts.database.one("SELECT announced_at IS NOT NULL FROM smap_project")
        return bool(row and row[0]) and self.processes[0].finished

    def _judge(self) -> None:
        total, errors = len(self.items), len(self.bad)
        expected = {"status": DONE, "total": total, "done": total, "errors": errors}
        if self.parts.ledger.hashes.get(P) != expected:
            self.problems.append(f"shown {self.parts.ledger.hashes.get(P)} for {expected}")
        columns = "settled, failed, final_total, final_done, final_errors, status"
        settled, failed, *finals = self.parts.database.one(f"SELECT {columns} FROM smap_project")
        if finals != [total, total, errors, DONE]:
            self.problems.append(f"finished as {finals}")
        if self.stranger != "worker" and (settled, failed) != (total, errors):
            self.problems.append(f"kept {settled}, {failed}")
        told = self.parts.bus.published
        if len({event.event_id for event in told}) != 1 or len({event.body for event in told}) != 1:
            self.problems.append(f"told {[json.loads(event.body) for event in told]}")


def run_seed(seed: int, database: InlineDatabase, kinds: Kinds | None = None) -> SmallWorld:
    world = SmallWorld(seed, database, kinds or Kinds())
    world.run()
    return world
