"""An event loop in virtual time on which processes can be killed, paused and blocked.

A process is a value in the context that its tasks carry. Handles wait in one queue per process, in the order asyncio
promises; which process goes next is drawn. When nothing is ready, time jumps to the next timer. A kill drops
handles and never cancels: `cancel()` would run `finally` blocks, a real kill does not. For the same reason nothing of a
dead process is garbage before the run is over.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any

CLOSES_MAX = 10
RUNNING, PAUSED, DEAD = "running", "paused", "dead"
CURRENT: ContextVar[Process] = ContextVar("headrace_simulated_process")


class Deadlock(RuntimeError):
    """Nothing can run and no timer is set, yet the run is not over."""


class Process:
    """One simulated process, or one thread of it. Tasks started in its context belong to it."""

    def __init__(self, name: str, parent: Process | None = None) -> None:
        self.name = name
        self.state = RUNNING
        self.main: Process = self if parent is None else parent.main
        self.queue: deque[asyncio.Handle] = deque()
        self.threads: list[Process] = []
        self.context: Context = copy_context()
        self.context.run(CURRENT.set, self)
        if parent is not None:
            parent.threads.append(self)

    @property
    def alive(self) -> bool:
        return self.state != DEAD

    def thread(self, name: str) -> Process:
        """A thread: it runs while the process does, also when the process's event loop is blocked."""
        return Process(f"{self.name}/{name}", self)


class ReadyQueues:
    """What the loop calls its ready handles: a queue per process."""

    def __init__(self, chance: Random, system: Process) -> None:
        self._chance = chance
        self._system = system
        self._ready: list[Process] = []
        self._graves: list[asyncio.Handle] = []

    def append(self, handle: asyncio.Handle) -> None:
        process = handle._context.get(CURRENT, self._system)  # type: ignore[attr-defined]
        if process.state == DEAD:
            self._graves.append(handle)
            return
        if not process.queue and process.state == RUNNING:
            self._ready.append(process)
        process.queue.append(handle)

    def pop(self) -> asyncio.Handle | None:
        """The next handle of a drawn process; None if nobody can run."""
        if not self._ready:
            return None
        index = int(self._chance.random() * len(self._ready)) if len(self._ready) > 1 else 0
        process = self._ready[index]
        handle = process.queue.popleft()
        if not process.queue:
            self._ready[index] = self._ready[-1]
            self._ready.pop()
        return handle

    def pause(self, process: Process) -> None:
        if process.state == RUNNING:
            process.state = PAUSED
            if process.queue:
                self._ready.remove(process)

    def resume(self, process: Process) -> None:
        if process.state == PAUSED:
            process.state = RUNNING
            if process.queue:
                self._ready.append(process)

    def kill(self, process: Process) -> None:
        self.pause(process)
        process.state = DEAD
        self._graves.extend(process.queue)
        process.queue.clear()

    def clear(self) -> None:
        self._ready.clear()
        self._graves.clear()

    def __len__(self) -> int:
        return len(self._ready)


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs everything that would run, in an order drawn from a seed, in no time.

    A real loop wakes late, and then finds several timers due in one turn. With exact time that never happens, and what
    goes wrong in such a turn is never seen. So each jump is late by up to `late_s`.
    """

    def __init__(self, chance: Random, late_s: float = 0.0) -> None:
        super().__init__()
        self._now = 0.0
        self._chance, self._late_s = chance, late_s
        self.system = Process("system")
        self._queues = ReadyQueues(chance, self.system)
        self._ready = self._queues
        self._scheduled: list[asyncio.TimerHandle] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self._now

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Whichever thread of a process calls: the callback runs on the event loop of that process."""
        if context is None:
            context = CURRENT.get(self.system).main.context.copy()
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("real threads have no place in virtual time: use the Threads seam")

    def spawn(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start work as a task of a process."""
        return process.context.copy().run(self.create_task, work)

    def elapse(self, seconds: float) -> None:
        """Let so much virtual time pass, with whatever falls into it."""
        self.run_until_complete(self.spawn(self.system, asyncio.sleep(seconds)))

    def later(self, process: Process, delay_s: float, work: Callable[..., object], *args: Any) -> None:
        """Call back after a while, as something that belongs to a process."""
        self.call_later(delay_s, work, *args, context=process.context.copy())

    def pause(self, process: Process) -> None:
        """Stop a process as a whole, as SIGSTOP does: its timers come due and wait with it."""
        for member in (process, *process.threads):
            self._queues.pause(member)

    def block(self, process: Process) -> None:
        """Stop the event loop of a process while its threads go on, as a handler that never awaits does."""
        self._queues.pause(process)

    def resume(self, process: Process) -> None:
        for member in (process, *process.threads):
            self._queues.resume(member)

    def kill(self, process: Process) -> None:
        for member in (process, *process.threads):
            self._queues.kill(member)

    def dump(self) -> str:
        """What is unfinished, for a deadlock's message."""
        waiting = [task for task in self._tasks if not task.done()]
        return "\n".join(f"  {task.get_coro()!r}" for task in waiting[:20])

    def bury(self) -> None:
        """End the run: nothing that is left runs again, and nobody is told that it was still pending.

        Unfinished coroutines are closed here, where what their `finally` blocks raise can be dropped, and not by the
        garbage collector, which would print it.
        """
        while self._tasks:
            task = self._tasks.pop()
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if not task.done():
                _close(task.get_coro())
        self._queues.clear()
        self._scheduled.clear()
        self.close()

    def _make_task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        self._tasks.append(task)
        return task

    def _run_once(self) -> None:
        handle = self._queues.pop()
        while handle is None:
            self._jump()
            handle = self._queues.pop()
        if not handle._cancelled:
            handle._run()

    def _jump(self) -> None:
        """Move time to the next timer and make everything due ready."""
        if not self._scheduled:
            raise Deadlock(f"nothing can run at {self._now:.3f} s; unfinished:\n{self.dump()}")
        late_s = self._chance.random() * self._late_s if self._late_s else 0.0
        self._now = max(self._now, self._scheduled[0].when() + late_s)
        while self._scheduled and self._scheduled[0].when() <= self._now:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            if not timer.cancelled():
                self._queues.append(timer)

    def _process_events(self, event_list: Any) -> None:
        """There are no file descriptors here."""

    def _write_to_self(self) -> None:
        """There is nobody to wake."""


def _close(work: Any) -> None:
    """A `finally` block that awaits answers a close with an error, once for every such block."""
    for _ in range(CLOSES_MAX):
        try:
            work.close()
        except BaseException:
            continue
        return
