"""Carries out a plan: every lane at its own pace, and counts what has really happened.

A fault counts when it was done: a process that was killed had been running, a clock that is off was that of a worker
that was ready (and has run a job, if it may), an answer counts as lost when the proxy has cut it off.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headrace_scheduler.chaos.fault_plan import FaultKind, FaultPlan, PlannedFault
from headrace_scheduler.chaos.fleet import Fleet, LifeClock, set_clock
from headrace_scheduler.jobs.values import RESOURCE

if TYPE_CHECKING:
    from headrace.testing import CassandraServer, Proxy, ServiceProcess

LOCK_BYTES = RESOURCE.encode()
"""What every statement about the lock of a job has in it."""
CUT_S_MAX = 5.0
TRIES_MAX = 30
LOOK_S = 0.25
RUN_S_MAX = 120.0
ASK_S = 10.0
_PROCESSED = re.compile(r"^jobs_processed_total\{.*\} (?!0\.0$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """What happened so many seconds after the beginning."""

    at_s: float
    kind: FaultKind
    words: str


@dataclass
class FaultLanes:
    """`nodes` and `proxies` belong to each other in their order. `all_begun` is set when every fault has happened, and
    only what is broken must become whole: whatever comes in after it meets nothing."""

    plan: FaultPlan
    fleet: Fleet
    nodes: Sequence[CassandraServer]
    proxies: Sequence[Proxy]
    say: Callable[[str], None]
    fired: Counter[FaultKind] = field(default_factory=Counter)
    events: list[FaultEvent] = field(default_factory=list)
    all_begun: asyncio.Event = field(default_factory=asyncio.Event)
    _begun: float = field(default_factory=time.monotonic)
    _prepared: dict[PlannedFault, ServiceProcess] = field(default_factory=dict)
    _clocks: dict[PlannedFault, Path] = field(default_factory=dict)

    async def prepare(self) -> None:
        """Start what the first faults need. While nodes are away no worker gets ready, and everybody would wait."""
        await asyncio.gather(*(self._prepare(fault) for lane in self.plan.lanes for fault in lane[:1]))

    async def run(self) -> None:
        """All of the plan. What was broken is whole again when this returns, whatever happened."""
        self._begun = time.monotonic()
        try:
            async with asyncio.TaskGroup() as group:
                for lane in self.plan.lanes:
                    group.create_task(self._walk(lane))
        finally:
            self.all_begun.set()
            await asyncio.to_thread(self.heal)

    def heal(self) -> None:
        for proxy in self.proxies:
            proxy.heal()
        for node in self.nodes:
            if node.running:
                node.resume()
            else:
                node.start()

    async def _walk(self, lane: Sequence[PlannedFault]) -> None:
        for fault in lane:
            await self._prepare(fault)
            await asyncio.sleep(max(0.0, self._begun + fault.at_s - time.monotonic()))
            await self._do(fault)

    async def _prepare(self, fault: PlannedFault) -> None:
        """A worker with a clock of its own is there before its fault is due."""
        if fault in self._prepared:
            return
        match fault.kind:
            case FaultKind.CLOCK_OFF:
                self._prepared[fault] = await self.fleet.start_skewed(LifeClock.OFF, fault.size)
            case FaultKind.CLOCK_REFUSED:
                self._prepared[fault] = await self.fleet.start_skewed(LifeClock.REFUSED, fault.size)
            case FaultKind.CLOCK_JUMP:
                self._prepared[fault], self._clocks[fault] = await self.fleet.start_jumping()

    async def _do(self, fault: PlannedFault) -> None:
        match fault.kind:
            case FaultKind.WORKER_KILL:
                await self._kill("worker", fault)
            case FaultKind.RECONCILER_KILL:
                await self._kill("reconciler", fault)
            case FaultKind.WORKER_FREEZE:
                await self._freeze(fault)
            case FaultKind.NODE_KILL | FaultKind.NODE_PAUSE:
                await self._break_node(fault)
            case FaultKind.LINK_CUT | FaultKind.LINK_DELAY:
                await self._break_link(fault)
            case FaultKind.ANSWER_LOST:
                await self._lose_answer(fault)
            case FaultKind.CLOCK_OFF | FaultKind.CLOCK_REFUSED:
                await self._skew(fault)
            case FaultKind.CLOCK_JUMP:
                await self._jump(fault)

    async def _kill(self, service: str, fault: PlannedFault) -> None:
        process = await self.fleet.take(service, fault.victim)
        process.kill()
        self.fleet.gone(process)
        self.fleet.start_soon(service)
        self._note(fault, f"{service} {process.pid} is killed")

    async def _freeze(self, fault: PlannedFault) -> None:
        process = await self.fleet.take("worker", fault.victim)
        process.freeze()
        self._note(fault, f"worker {process.pid} is frozen for {fault.lasts_s:.1f} s")
        await asyncio.sleep(fault.lasts_s)
        process.wake()
        self.fleet.put_back(process)

    async def _break_node(self, fault: PlannedFault) -> None:
        number = fault.victim % len(self.nodes)
        node, name = self.nodes[number], f"node {number + 1}"
        if fault.kind is FaultKind.NODE_PAUSE:
            await asyncio.to_thread(node.pause)
            self._note(fault, f"{name} is paused for {fault.lasts_s:.1f} s")
            await asyncio.sleep(fault.lasts_s)
            await asyncio.to_thread(node.resume)
            return
        await asyncio.to_thread(node.kill)
        self._note(fault, f"{name} is killed, for {fault.lasts_s:.1f} s and its start")
        await asyncio.sleep(fault.lasts_s)
        await asyncio.to_thread(node.start)

    async def _break_link(self, fault: PlannedFault) -> None:
        number = fault.victim % len(self.proxies)
        proxy, name = self.proxies[number], f"the link to node {number + 1}"
        if fault.kind is FaultKind.LINK_DELAY:
            proxy.latency(fault.size)
            self._note(fault, f"{name} is {fault.size * 1_000:.0f} ms slower each way for {fault.lasts_s:.1f} s")
        else:
            proxy.refuse()
            proxy.reset()
            self._note(fault, f"{name} is cut for {fault.lasts_s:.1f} s")
        await asyncio.sleep(fault.lasts_s)
        proxy.heal()

    async def _lose_answer(self, fault: PlannedFault) -> None:
        """At whichever node a statement about a lock passes first."""
        number = fault.victim % len(self.proxies)
        for offset in range(TRIES_MAX):
            proxy = self.proxies[(number + offset) % len(self.proxies)]
            if not proxy.open_connections:
                await asyncio.sleep(LOOK_S)
                continue
            before = proxy.cuts
            proxy.cut_reply_to(LOCK_BYTES)
            try:
                await asyncio.to_thread(proxy.wait_for_cut, CUT_S_MAX, before + 1)
                self._note(fault, "the answer about a lock is cut off")
                return
            except TimeoutError:
                # Its node is down: nobody asks there.
                proxy.heal()

    async def _skew(self, fault: PlannedFault) -> None:
        process = self._prepared[fault]
        if fault.kind is FaultKind.CLOCK_OFF:
            await self._until_it_has_run(process)
        self._note(fault, f"worker {process.pid} has a clock that is off by {fault.size:+.3f} s")
        await asyncio.sleep(fault.lasts_s)
        process.kill()
        self.fleet.gone(process)

    async def _jump(self, fault: PlannedFault) -> None:
        process = self._prepared[fault]
        await self._until_it_has_run(process)
        set_clock(self._clocks[fault], fault.size)
        self._note(fault, f"the clock of worker {process.pid} jumps by {fault.size:+.3f} s")
        await asyncio.sleep(fault.lasts_s)
        process.kill()
        self.fleet.gone(process)

    async def _until_it_has_run(self, process: ServiceProcess) -> None:
        """A job, or as long as one may wait: with all nodes away nothing is run."""
        deadline = time.monotonic() + RUN_S_MAX
        while not await _has_run(process.url) and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_S)

    def _note(self, fault: PlannedFault, words: str) -> None:
        self.fired[fault.kind] += 1
        if self.fired.total() == sum(map(len, self.plan.lanes)):
            self.all_begun.set()
        self.events.append(FaultEvent(time.monotonic() - self._begun, fault.kind, words))
        self.say(f"{self.events[-1].at_s:6.1f} s  {words}")


async def _has_run(url: str) -> bool:
    """Whether a worker has run a job to its end, by its own metrics."""
    import httpx

    async with httpx.AsyncClient(base_url=url, timeout=ASK_S, trust_env=False) as client:
        with contextlib.suppress(httpx.HTTPError):
            return _PROCESSED.search((await client.get("/metrics")).text) is not None
    return False
