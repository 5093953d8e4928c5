"""One parent and its processes: workers, services, whatever is kept running.

The parent runs no handler and keeps no account: it starts children, starts them again when they die, passes signals on,
and kills a child that is frozen inside a write of a SQLite store, because such a child stops everybody. It also kills a
worker that says of itself that it does not get on. A child that dies costs its claims some time and nothing else, so
killing is always safe.

A worker that says nothing may hold the interpreter in a long call of foreign code, which is work for as long as its
handlers may take. After that it is killed as well: a regular expression that does not end, or a stopped process, would
else be missed by nobody, and the next worker that takes its items over would be the next to hang.

What does not heal by itself is not tried again and again. The first worker starts alone; if it cannot work at all (a
module that does not import, a store that does not answer) there is one message and no loop of restarts. Programs of a
`patient` plan start together, and one that finds a server missing is started again, slower each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.core.backoff import Backoff
from headrace.core.errors import HeadraceError, StoreReplaced
from headrace.ports.seams import Clock
from headrace.runtime.programs import Child, Program, ending, start

RESTARTS = Backoff(0.1, 2.0, jitter=0.0)
STEADY_S = 2.0
KILL_AFTER_S = 1.5
IDLE_LOOK_S = 0.2
# An idle worker asks its store every second. A store may be slow for a while, and starting all anew would not help it.
STILL_S_MAX = 60.0
# A child that ends with this before it is ready was started wrongly, and starting it again changes nothing.
USAGE = 2
# A child that ends with this found no server; it may be there in a minute.
UNREACHABLE = 5
# A child that ends with this found its store deleted or replaced; another one would start with an empty store.
REPLACED = 7
# Set for every child but the first: there is a store by now, and one that is missing was deleted.
MADE_VARIABLE = "HEADRACE_STORE_MADE"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run and how long to be patient.

    `writer` is the side file whose lock a SQLite store's writer holds. `check_store` raises `StoreReplaced` if the
    store is not the one that it was when it was first asked with a child at work. Pauses between restarts grow while a
    child lives for less than `steady_s`. A worker may say for `still_s_max` that it does not get on.
    """

    programs: tuple[Program, ...]
    hold_s: float
    drain_s: float
    writer: Path | None = None
    check_store: Callable[[], None] = lambda: None
    restarts: Backoff = RESTARTS
    steady_s: float = STEADY_S
    patient: bool = False
    still_s_max: float = STILL_S_MAX


class Supervisor:
    """Keeps the programs of a plan alive until it is told to drain. `counts` says what happened to them."""

    def __init__(self, plan: Plan, clock: Clock, say: Callable[[str], None]) -> None:
        self._plan, self._clock, self._say = plan, clock, say
        self._slots = [program for program in plan.programs for _ in range(program.processes)]
        self._children: dict[int, Child] = {}
        # What each program said when it was first ready.
        self.said: dict[str, str] = {}
        self._stopping = asyncio.Event()
        self._hurried = False
        self._refused: int | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self.counts: Counter[str] = Counter()
        self.ready = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._children.values()]

    @property
    def ready_pids(self) -> list[int]:
        """The children that claim work by now."""
        return [child.pid for child in self._children.values() if child.is_ready]

    async def all_ready(self) -> None:
        """Until every child claims work."""
        while len(self.ready_pids) < len(self._slots):
            self._changed.clear()
            await self._changed.wait()

    async def run(self, ended: Callable[[], Awaitable[bool]] | None = None) -> int:
        """Until a drain (or until `ended` says so): 0. If the first child cannot work: its exit code."""
        others = [asyncio.ensure_future(self._watch_children()), asyncio.ensure_future(self._watch_end(ended))]
        try:
            await self._keep_all()
        finally:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            for timer in self._timers:
                timer.cancel()
        failed = [task.exception() for task in others if not task.cancelled() and task.exception() is not None]
        if failed and failed[0] is not None:
            raise failed[0]
        return self._refused or 0

    def drain(self) -> None:
        """Finish what is started, claim nothing more. Called a second time: stop now."""
        if self._stopping.is_set():
            self.stop_now()
            return
        self._stopping.set()
        self._send_all(signal.SIGTERM)
        self._later(self._plan.drain_s, self.stop_now)

    def stop_now(self) -> None:
        """Give back what is held and go; whoever does not go is killed. Costs nobody an attempt."""
        if self._hurried:
            return
        self._hurried = True
        self._stopping.set()
        for child in self._children.values():
            self._stop(child)
        self._later(KILL_AFTER_S, lambda: self._send_all(signal.SIGKILL))

    def obey_signals(self) -> Callable[[], None]:
        """SIGTERM and SIGINT drain, a second one stops now. The answer undoes it."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self.drain)

        def undo() -> None:
            for number in numbers:
                loop.remove_signal_handler(number)

        return undo

    def _later(self, delay_s: float, work: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(delay_s, work))

    @staticmethod
    def _stop(child: Child) -> None:
        # One that is not ready holds nothing, and a SIGINT among its imports would print a traceback.
        child.send(signal.SIGINT if child.is_ready else signal.SIGTERM)

    def _send_all(self, number: signal.Signals) -> None:
        for child in self._children.values():
            child.send(number)

    async def _keep_all(self) -> None:
        if self._plan.patient:
            await asyncio.gather(*(self._keep(slot) for slot in range(len(self._slots))))
            return
        first = asyncio.ensure_future(self._keep(0))
        looks = [asyncio.ensure_future(event.wait()) for event in (self.ready, self._stopping)]
        await asyncio.wait([first, *looks], return_when=asyncio.FIRST_COMPLETED)
        for look in looks:
            look.cancel()
        slots = range(1, 1 if self._stopping.is_set() else len(self._slots))
        await asyncio.gather(first, *(self._keep(slot) for slot in slots))

    async def _keep(self, slot: int) -> None:
        """Keep one child alive, with a growing pause while it dies young."""
        program, young = self._slots[slot], 0
        while not self._stopping.is_set():
            if not self._same_store():
                return
            child = await self._start(program)
            self._children[slot] = child
            said = await child.ready
            if said is not None:
                self.said.setdefault(program.name, said)
                self.ready.set()
                self._same_store()
            self._changed.set()
            code = await child.ended()
            del self._children[slot]
            self.counts["kills"] += code == -signal.SIGKILL
            if self._stopping.is_set():
                return
            if self._is_hopeless(program, code, said is not None):
                if said is None:
                    # Whatever ended it may have ended it without a word.
                    self._say(f"{program.name} {child.pid} {ending(code)} before it was ready")
                self._refuse(code)
                return
            self.counts["restarts"] += 1
            lived_s = self._clock.monotonic() - child.started_at
            young = 1 if lived_s >= self._plan.steady_s else young + 1
            pause_s = self._plan.restarts.pause_s(young)
            self._say(f"{program.name} {child.pid} {ending(code)}; another one starts in {pause_s:g} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)

    def _is_hopeless(self, program: Program, code: int, worked: bool) -> bool:
        """Whether starting this program again would change nothing."""
        if code == REPLACED:
            return True
        if worked or code <= 0:
            return False
        if self._plan.patient and code == UNREACHABLE:
            return False
        return code == USAGE or program.name not in self.said

    def _same_store(self) -> bool:
        """Whether the store is still the one that the first child opened: if not, everything ends."""
        if not self.ready.is_set():
            return True
        try:
            self._plan.check_store()
        except StoreReplaced as error:
            self._say(f"headrace: {error}\n  → {error.hint}")
            self._refuse(REPLACED)
            return False
        return True

    def _refuse(self, code: int) -> None:
        self._refused = code
        self.drain()

    async def _start(self, program: Program) -> Child:
        made = {MADE_VARIABLE: "1"} if program.name in self.said else {}
        child = await start(program, self._clock.monotonic(), made)
        if self._stopping.is_set():
            self._stop(child)
        return child

    async def _watch_end(self, ended: Callable[[], Awaitable[bool]] | None) -> None:
        if ended is None:
            return
        await self.ready.wait()
        try:
            while not await _surely(ended):
                await asyncio.sleep(IDLE_LOOK_S)
        finally:
            if not self._stopping.is_set():
                self.drain()

    async def _watch_children(self) -> None:
        """Kill a child of ours that has been inside one write for a third of the hold time, or that does not get on."""
        limit_s = self._plan.hold_s / 3
        look_s = min(1.0, limit_s / 4)
        while True:
            await asyncio.sleep(look_s)
            children = {child.pid: child for child in self._children.values()}
            before = self._clock.monotonic() - limit_s
            for holder in set(children) & {stuck_writer(path, before) for path in self._side_files(children)}:
                self.counts["frozen"] += 1
                self._say(f"worker {holder} is frozen inside a write and stops the others: killed")
                children[holder].send(signal.SIGKILL)
            for child in children.values():
                # Counted in looks and not by the clock: while everything was stopped, nobody could say anything.
                child.silent_s += look_s
                self._judge(child)

    def _judge(self, child: Child) -> None:
        """Kill a child that has not got on for too long, as it says itself or by saying nothing."""
        limit_s = self._plan.still_s_max
        if child.still_s > limit_s:
            words = f"has claimed and settled nothing for {child.still_s:.0f} s"
        elif child.silent_s_max is not None and child.silent_s > child.silent_s_max + limit_s:
            words = f"has said nothing for {child.silent_s:.0f} s"
        else:
            return
        self.counts["still"] += 1
        self._say(f"worker {child.pid} {words}: killed")
        child.still_s = child.silent_s = 0.0
        child.send(signal.SIGKILL)

    def _side_files(self, pids: Iterable[int]) -> set[Path]:
        """That of the store, and where the system tells it those of SQLite sinks that the children have open."""
        files = {self._plan.writer.absolute()} if self._plan.writer is not None else set()
        return files.union(*(side_files(pid) for pid in pids))


async def _surely(ended: Callable[[], Awaitable[bool]]) -> bool:
    """A store that does not answer for a while has not ended anything."""
    try:
        return await ended()
    except HeadraceError as error:
        if not error.heals:
            raise
        return False


def side_files(pid: int) -> set[Path]:
    """The side files of writers that a process has open."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(entry.path)
                if target.endswith("-writer"):
                    found.add(Path(target))
    return found


def stuck_writer(path: Path, before: float) -> int | None:
    """The process that has held the writer's lock since before this moment, if there is one.

    The file says who took the lock and when; only the lock itself says whether it is still held.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        said = _holder(descriptor)
        if said is None or said[1] > before:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            # Between reading and asking, the lock may have passed to another: then the file says something else.
            return said[0] if _holder(descriptor) == said else None
        return None
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> tuple[int, float] | None:
    words = os.pread(descriptor, 100, 0).split()
    try:
        return int(words[0]), float(words[1])
    except (IndexError, ValueError):
        return None
