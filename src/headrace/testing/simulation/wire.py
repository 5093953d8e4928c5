"""The wire between one simulated process and the store: calls are late, lost, answered into the void, or arrive twice.

A call that was sent belongs to the wire: if its process dies meanwhile, the store carries it out all the same. The
store carries out each call at one instant of virtual time, and the history is told at that instant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from headrace.core.claims import Grant, Renewed, Settled, Settlement, Swept, Want
from headrace.core.errors import Unknown, Unreachable
from headrace.core.jobs import DeadFilter, Submission, Submitted
from headrace.core.parcels import Parcel
from headrace.core.schedules import Due, FireView, Firing, Schedule, ScheduleView
from headrace.ports.parts import Parts
from headrace.ports.schedules import Schedules
from headrace.ports.store import Features
from headrace.testing.simulation.history import History
from headrace.testing.simulation.loop import Process
from headrace.testing.simulation.transit import LATENCY_S, Surface, Transit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SinkAnswer:
    """What the sink answered."""

    applied: bool


class Grounds(Surface, Protocol):
    """What every wire of a world with a store shares."""

    @property
    def history(self) -> History: ...

    def changed(self) -> None:
        """The store was changed: look at the account."""

    def scheduled(self) -> None:
        """A worker's schedules are in the store."""


class Wire(Transit):
    """A store as one process sees it."""

    def __init__(self, grounds: Grounds, process: Process, store: Parts) -> None:
        super().__init__(grounds, process)
        self._grounds: Grounds = grounds
        self._store = store
        self.features = Features(durable=False, many_processes=True)
        self.schedules = WireSchedules(self, store.schedules)

    async def submit(self, submission: Submission) -> Submitted:
        return await self.call("submit", lambda: self._store.submit(submission))

    async def send(self, owner: int | str, parcels: Sequence[Parcel]) -> bool:
        history = self._grounds.history
        return await self.call(
            "send", lambda: self._store.send(owner, parcels), lambda at, yes: history.staged(owner, parcels, yes)
        )

    async def claim(self, worker: str, wants: Sequence[Want], hold_s: float) -> Grant:
        history = self._grounds.history
        return await self.call(
            "claim",
            lambda: self._store.claim(worker, wants, hold_s),
            lambda at, grant: history.granted(at, grant, hold_s),
        )

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        history = self._grounds.history
        return await self.call(
            "settle",
            lambda: self._store.settle(settlements),
            lambda at, answers: history.settled(at, settlements, answers),
        )

    async def sweep(self) -> Swept:
        return await self.call("sweep", self._store.sweep)

    async def cancel(self, job: str) -> bool:
        return await self.call("cancel", lambda: self._store.cancel(job))

    async def pause(self, job: str) -> bool:
        return await self.call("pause", lambda: self._store.pause(job))

    async def resume(self, job: str) -> bool:
        return await self.call("resume", lambda: self._store.resume(job))

    async def redrive(self, which: DeadFilter) -> int:
        return await self.call("redrive", lambda: self._store.redrive(which))

    def renew(self, worker: str, fences: Sequence[int], hold_s: float) -> Renewed:
        """Blocking, so it cannot be late here; it can fail before or after it was carried out."""
        faults, at = self._grounds.faults, self._grounds.loop.time()
        lost = faults.strikes("heart")
        if lost and faults.chance.random() < 0.5:
            raise Unreachable("the renewal did not reach the store")
        answer = self._store.renew(worker, fences, hold_s)
        self._grounds.history.note(at, self._process.name, "renew", sorted(answer.kept), sorted(answer.ending))
        self._grounds.history.renewed(at, answer, hold_s)
        if lost:
            raise Unknown("the answer to the renewal was lost")
        return answer

    def scheduled(self, _at: float, _answer: None) -> None:
        self._grounds.scheduled()

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        def heard() -> None:
            if not self._grounds.faults.strikes("deaf"):
                self._grounds.loop.later(self._process, LATENCY_S, ring)

        return self._store.on_wake(heard)

    async def close(self) -> None:
        """The store outlives every process."""

    def brief(self, result: object) -> object:
        return _brief(result)

    def carried_out(self, result: object) -> None:
        if _changed(result):
            self._grounds.changed()

    async def effect(self, name: str, key: str, fence: int, apply: Callable[[str, int], bool]) -> bool:
        """A call to the sink travels like any other."""

        async def run() -> SinkAnswer:
            return SinkAnswer(apply(key, fence))

        if self._grounds.faults.strikes("delay"):
            # A write to a sink may be under way for longer than its writer lives.
            loop, late = self._grounds.loop, self._grounds.faults.chance.random() * 4 * self._grounds.hold_s
            loop.later(loop.system, late, self._arrive, f"{name} {key} {fence} late", run, None, None)
            raise Unknown(f"{name}: no answer came")
        return (await self.call(f"{name} {key} {fence}", run)).applied


class WireSchedules:
    """The schedules of a store as one process sees them."""

    def __init__(self, wire: Wire, schedules: Schedules) -> None:
        self._wire, self._schedules = wire, schedules

    async def declare(self, worker: str, flows: Sequence[str], declared: Sequence[Schedule]) -> None:
        work = self._schedules.declare
        await self._wire.call("declare", lambda: work(worker, flows, declared), self._wire.scheduled)

    async def due(self, flows: Sequence[str]) -> Due:
        return await self._wire.call("due", lambda: self._schedules.due(flows))

    async def fire(self, firing: Firing) -> list[FireView]:
        return await self._wire.call("fire", lambda: self._schedules.fire(firing))

    async def add(self, schedule: Schedule, replace: bool = False) -> None:
        await self._wire.call("add", lambda: self._schedules.add(schedule, replace))

    async def remove(self, name: str) -> bool:
        return await self._wire.call("remove", lambda: self._schedules.remove(name))

    async def set_paused(self, name: str, paused: bool) -> bool:
        return await self._wire.call("set_paused", lambda: self._schedules.set_paused(name, paused))

    async def run(self, name: str, moment_ms: int) -> bool:
        return await self._wire.call("run", lambda: self._schedules.run(name, moment_ms))

    async def look(self, name: str | None = None) -> list[ScheduleView]:
        return await self._wire.call("look", lambda: self._schedules.look(name))


def _brief(result: object) -> object:
    """An answer in few words, the same in every run of a seed."""
    match result:
        case Grant():
            return [(claim.fence, claim.stage, *claim.seqs) for claim in result.claims]
        case Due():
            return [(due.schedule.name, due.handled_ms) for due in result.schedules]
        case [FireView(), *_]:
            return [str(fire) for fire in result]
        case list():
            return [(answer.fence, answer.accepted, answer.reason) for answer in result]
    return result


def _changed(result: object) -> bool:
    """Whether a call changed the account: most claims find nothing and most sweeps have nothing to do."""
    match result:
        case Grant():
            return bool(result.claims)
        case Swept():
            return result.lost > 0
        case [FireView(), *_]:
            return True
        case list():
            return any(answer.accepted for answer in result)
        case SinkAnswer() | Due():
            return False
    return bool(result)
