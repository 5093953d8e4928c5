"""A worker says for how long it has not got on, and its supervisor replaces one that says so for too long."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import reporting_child
from runtime_bench import QUICK, Bench
from waiting import eventually

from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.tally import JobState
from headrace.runtime.flow import Flow
from headrace.runtime.programs import Program
from headrace.runtime.seams import RealClock, Seams
from headrace.runtime.supervisor import Plan, Supervisor

JOB_S_MAX = 30.0


@dataclass
class LateClock(RealClock):
    """Real time, and what a test adds to it."""

    late_s: float = 0.0

    def monotonic(self) -> float:  # type: ignore[override]
        return RealClock.monotonic() + self.late_s


def supervised(path: Path, child: str, said: list[str]) -> Supervisor:
    environment = {**os.environ, "REPORTED_STORE": str(path)}
    plan = Plan(
        (Program("worker", (sys.executable, reporting_child.__file__, child), environment),),
        hold_s=reporting_child.HOLD_S,
        drain_s=1.0,
        still_s_max=reporting_child.STILL_S_MAX,
    )
    return Supervisor(plan, RealClock(), said.append)


async def run_to_the_end(path: Path, child: str, takes_s: float) -> tuple[Supervisor, list[str]]:
    said: list[str] = []
    store = await SqliteStore.open(str(path))
    bench = Bench(store)
    job = await bench.submit(reporting_child.FLOW, takes_s)

    async def ended() -> bool:
        return (await store.job(job)).state is not JobState.OPEN

    supervisor = supervised(path, child, said)
    try:
        assert await asyncio.wait_for(supervisor.run(ended), JOB_S_MAX) == 0
        view = await store.job(job)
        assert (view.stages["one"].done, view.stages["one"].dead) == (1, 0)
    finally:
        await store.close()
    return supervisor, said


async def test_a_child_that_lives_and_does_not_get_on_is_replaced(tmp_path: Path) -> None:
    supervisor, said = await run_to_the_end(tmp_path / "store.db", "stuck", 0.0)
    assert (supervisor.counts["still"], supervisor.counts["restarts"]) == (1, 1)
    assert "has claimed and settled nothing for" in said[0]


async def test_a_child_with_a_long_handler_is_left_alone(tmp_path: Path) -> None:
    supervisor, _ = await run_to_the_end(tmp_path / "store.db", "whole", 3 * reporting_child.STILL_S_MAX)
    assert (supervisor.counts["still"], supervisor.counts["restarts"]) == (0, 0)


async def test_a_child_that_says_nothing_is_replaced_after_the_time_that_a_handler_may_take(tmp_path: Path) -> None:
    """Stopped, as one is that holds the interpreter for ever: none of its threads can say anything."""
    store = await SqliteStore.open(str(tmp_path / "store.db"))
    said: list[str] = []
    supervisor = supervised(tmp_path / "store.db", "whole", said)
    try:
        running = asyncio.ensure_future(supervisor.run())
        first = await Bench(store).submit(reporting_child.FLOW, 0.0)
        await eventually(lambda: store.finishes(first), "it works")
        (pid,) = supervisor.pids
        os.kill(pid, signal.SIGSTOP)
        second = await Bench(store).submit(reporting_child.FLOW, 0.0)
        await eventually(lambda: store.finishes(second), "another child does the work", JOB_S_MAX)
        supervisor.drain()
        assert await asyncio.wait_for(running, JOB_S_MAX) == 0
    finally:
        await store.close()
    assert supervisor.counts["still"] == 1
    assert f"worker {pid} has said nothing for" in said[0]


async def test_a_worker_that_has_nothing_to_do_gets_on(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage
    async def one(number: int) -> None: ...

    async with bench.worker(flow) as worker:
        stills: list[float] = []

        def asked_often() -> bool:
            stills.append(worker.still_s())
            return len(stills) > 50

        await eventually(asked_often, "it was asked often")
    assert max(stills) < 20 * QUICK.poll_s


@pytest.mark.parametrize(("handling", "still_s"), [(False, 100.0), (True, 40.0)])
async def test_a_handler_may_take_its_time_and_no_longer(bench: Bench, handling: bool, still_s: float) -> None:
    """The loop does not turn while the clock is late, as if the handler had blocked it."""
    flow, clock, started, release = Flow("digest"), LateClock(), asyncio.Event(), asyncio.Event()

    @flow.stage(timeout_s=60.0)
    async def one(number: int) -> None:
        started.set()
        await release.wait()

    async with bench.worker(flow, seams=Seams(clock=clock)) as worker:
        if handling:
            await bench.submit(flow, 1)
            await started.wait()
        clock.late_s = 100.0
        assert worker.still_s() == pytest.approx(still_s, abs=2.0)
        clock.late_s = 0.0
        release.set()
