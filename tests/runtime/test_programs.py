"""Programs under the one supervisor: lines, readiness, restarts, refusals, and the end of the parent."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from waiting import eventually, until

from headrace.core.backoff import Backoff
from headrace.runtime.programs import Program
from headrace.runtime.seams import RealClock
from headrace.runtime.supervisor import UNREACHABLE, USAGE, Plan, Supervisor
from headrace.testing.rig.children import started_at

QUICK = Backoff(0.01, 0.02, jitter=0.0)
READY = "from headrace.runtime.programs import die_with_parent, tell_ready; die_with_parent(); tell_ready('here')"
FOR_EVER = "import signal; signal.sigwait({signal.SIGTERM})"


def program(name: str, *lines: str, told: Callable[[str], None] | None = None, processes: int = 1) -> Program:
    return Program(name, (sys.executable, "-c", "\n".join(lines)), dict(os.environ), processes, told)


@asynccontextmanager
async def supervised(
    *programs: Program, say: Callable[[str], None] = print, patient: bool = True
) -> AsyncIterator[tuple[Supervisor, asyncio.Task[int]]]:
    plan = Plan(programs, hold_s=30.0, drain_s=5.0, restarts=QUICK, patient=patient)
    supervisor = Supervisor(plan, RealClock(), say)
    running = asyncio.create_task(supervisor.run())
    try:
        yield supervisor, running
    finally:
        supervisor.drain()
        async with asyncio.timeout(20):
            await running


async def test_different_programs_are_ready_and_say_where() -> None:
    one, two = program("one", READY, FOR_EVER), program("two", READY.replace("here", "there"), FOR_EVER, processes=2)
    async with supervised(one, two) as (supervisor, _):
        async with asyncio.timeout(20):
            await supervisor.all_ready()
        assert supervisor.said == {"one": "here", "two": "there"}
        assert len(supervisor.pids) == 3


async def test_what_a_program_prints_is_passed_on_to_its_last_word() -> None:
    lines: list[str] = []
    words = "print('first', flush=True); print('second\\nlast without an end', end='', flush=True); raise SystemExit(2)"
    async with supervised(program("talker", words, told=lines.append)) as (_, running):
        assert await running == USAGE
    assert lines == ["first", "second", "last without an end"]


async def test_a_program_that_dies_is_started_again_and_the_others_stay() -> None:
    said: list[str] = []
    dies, stays = program("dies", READY, FOR_EVER), program("stays", READY, FOR_EVER)
    async with supervised(dies, stays, say=said.append) as (supervisor, _):
        async with asyncio.timeout(20):
            await supervisor.all_ready()
        first, other = supervisor.pids
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: len(set(supervisor.ready_pids) - {first}) == 2, "another process", 20)
        assert other in supervisor.pids
    assert said == [f"dies {first} was killed by SIGKILL; another one starts in 0.01 s"]


async def test_a_program_that_was_never_ready_and_fails_is_not_tried_again() -> None:
    async with supervised(program("good", READY, FOR_EVER), program("bad", "raise SystemExit(3)")) as (_, running):
        async with asyncio.timeout(20):
            assert await running == 3


async def test_a_patient_plan_waits_for_a_server_and_another_does_not(tmp_path: Path) -> None:
    there = tmp_path / "there"
    waits = program("waits", f"import os\nif not os.path.exists({str(there)!r}): raise SystemExit(5)", READY, FOR_EVER)
    async with supervised(waits) as (supervisor, _):
        await eventually(lambda: supervisor.counts["restarts"] > 2, "restarts", 20)
        there.touch()
        async with asyncio.timeout(20):
            await supervisor.all_ready()
    there.unlink()
    async with supervised(waits, patient=False) as (supervisor, running):
        async with asyncio.timeout(20):
            assert await running == UNREACHABLE


async def test_a_program_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    deaf = "import signal\nfor number in (2, 15): signal.signal(number, signal.SIG_IGN)"
    plan = Plan((program("deaf", deaf, READY, "signal.pause()"),), hold_s=30.0, drain_s=0.1, patient=True)
    supervisor = Supervisor(plan, RealClock(), print)
    running = asyncio.create_task(supervisor.run())
    async with asyncio.timeout(20):
        await supervisor.all_ready()
        supervisor.drain()
        assert await running == 0
    assert supervisor.counts["kills"] == 1


async def test_programs_end_with_their_parent(tmp_path: Path) -> None:
    parent = f"""
import asyncio, os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_programs import FOR_EVER, READY, program
from headrace.runtime.seams import RealClock
from headrace.runtime.supervisor import Plan, Supervisor

async def main():
    supervisor = Supervisor(Plan((program("child", READY, FOR_EVER),), 30.0, 5.0, patient=True), RealClock(), print)
    running = asyncio.create_task(supervisor.run())
    await supervisor.all_ready()
    print(supervisor.pids[0], flush=True)
    await running

asyncio.run(main())
"""
    path = os.pathsep.join(sys.path)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", parent, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    )
    assert process.stdout is not None
    async with asyncio.timeout(20):
        child = int(await process.stdout.readline())
    process.kill()
    await process.wait()
    await asyncio.to_thread(until, lambda: started_at(child) is None, "the child has ended", 20)


async def test_one_that_is_stopped_before_it_is_ready_prints_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []
    busy = program("busy", "print('begun', flush=True)", "import signal; signal.pause()", told=lines.append)
    async with supervised(busy) as (supervisor, running):
        await eventually(lambda: lines, "it has begun")
        supervisor.stop_now()
        assert await running == 0
    assert "Traceback" not in capfd.readouterr().err
