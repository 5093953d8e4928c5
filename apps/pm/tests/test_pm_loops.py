"""Loops that fail, hang or die: they go on and are told of, or their process ends. None is missed in silence."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from waiting import eventually

from headrace.errors import TryAgain
from headrace_pm.service import open_service
from headrace_pm.settings import PmSettings
from headrace_pm.work.loops import KeptLoop
from headrace_pm.work.pipeline import WorkerEnded, _work

WAIT_S = 0.05


class Rounds:
    """Rounds that fail, hang or pass as they are told."""

    def __init__(self, *ends: str) -> None:
        self.ends, self.made = list(ends), 0
        self.passed = asyncio.Event()

    async def round(self) -> None:
        self.made += 1
        match self.ends.pop(0) if self.ends else "passes":
            case "fails":
                raise ZeroDivisionError("a fault of ours")
            case "is cancelled":
                raise asyncio.CancelledError
            case "hangs":
                await asyncio.Event().wait()
        self.passed.set()


async def test_a_loop_that_fails_or_hangs_is_told_of_and_goes_on() -> None:
    rounds, failed = Rounds("fails", "hangs", "is cancelled"), list[str]()
    loop = KeptLoop("scan", 60.0, rounds.round, failed.append)
    loop._round_s_max = WAIT_S
    stop = asyncio.Event()
    running = asyncio.ensure_future(loop.run(stop))
    await eventually(lambda: loop.state.failures == 1, "it has failed")
    with pytest.raises(TryAgain, match="scan has failed 1 times in a row: ZeroDivisionError: a fault of ours"):
        await loop.state.answers()
    await eventually(lambda: loop.state.failures == 2, "it hung")
    assert "it took too long" in loop.state.error
    await eventually(lambda: loop.state.failures == 3, "something in it was cancelled, and not by us")
    await rounds.passed.wait()
    await eventually(lambda: not loop.state.failures, "it is well")
    assert (failed, loop.state.last_ok_at > 0) == (["scan"] * 3, True)
    await loop.state.answers()
    stop.set()
    await running


async def test_a_stop_does_not_wait_for_a_round_that_hangs() -> None:
    rounds = Rounds("hangs")
    loop = KeptLoop("mover", 60.0, rounds.round, lambda _name: None)
    stop = asyncio.Event()
    running = asyncio.ensure_future(loop.run(stop))
    await eventually(lambda: rounds.made == 1, "it hangs")
    stop.set()
    await running
    assert loop.state.failures == 0, "a stop is no failure"


class QuietWorker:
    """A worker that ends by itself."""

    async def run(self) -> None: ...
    def drain(self) -> None: ...


async def test_a_worker_that_ends_by_itself_ends_the_process() -> None:
    stop = asyncio.Event()
    with pytest.raises(WorkerEnded):
        await _work(cast("Any", QuietWorker()), stop)
    stop.set()
    await _work(cast("Any", QuietWorker()), stop)


class DyingLoop(KeptLoop):
    """The task of a loop breaks where nobody expects it."""

    async def run(self, stop: asyncio.Event) -> None:
        raise ZeroDivisionError("outside of its rounds")


@pytest.mark.parametrize("name", ["scan", "worker", "mover", "all"])
async def test_a_loop_whose_task_dies_takes_the_process_with_it(tmp_path: Path, name: str) -> None:
    """The supervisor starts it again; a process that goes on without one of its loops would look well."""
    settings = PmSettings(home=tmp_path / "home", spool_dir=tmp_path / "spool")
    async with open_service(name, settings) as service:
        kinds = len(service.pipeline.loops)
        for place in range(kinds):
            loops = service.pipeline._loops
            whole, loops[place] = loops[place], DyingLoop("dies", 60.0, nothing_to_do, lambda _name: None)
            with pytest.raises(ExceptionGroup) as ended:
                async with asyncio.timeout(60.0):
                    await service.run(asyncio.Event())
            assert ended.group_contains(ZeroDivisionError)
            loops[place] = whole
        assert set(service.parts) >= {f"loop_{each}" for each in service.pipeline.loops}, "each is asked by /readyz"


async def nothing_to_do() -> None: ...
