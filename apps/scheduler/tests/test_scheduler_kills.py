"""kill -9 before every statement of a run, in real processes: nothing is lost, and an effect is repeated only if the
run had not said that it was over."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import scheduler_mortal
import uuid_utils
from scheduler_world import World
from waiting import eventually

from headrace.sources import SourceOptions, SourceWorker
from headrace_scheduler.jobs.values import JobKey, JobStatus
from headrace_scheduler.reconciler.reconciler import YOUNG, JobReconciler
from headrace_scheduler.tables.pending_rows import LONG_AGO

SETTLED_S_MAX = 60.0
# lock; read pending, where, row; delete pending; running; history
BEGUN = 7
# look at the lock; end of the run in the history
TOLD = 2
SENTENCES = {"done": BEGUN + TOLD + 2, "again": BEGUN + TOLD + 5, "dead": BEGUN + TOLD + 4}


class Nursery:
    """Children that make calls of `scheduler_mortal`, and how they ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    async def lives(self, *calls: Sequence[Any]) -> list[int]:
        return await asyncio.to_thread(self._lives, json.dumps(calls))

    def _lives(self, line: str) -> list[int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        found: list[int] = json.loads(self._process.stdout.readline())
        return found


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    line = [sys.executable, str(Path(__file__).with_name("scheduler_nursery.py"))]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Nursery(process)
        assert process.stdin is not None
        process.stdin.close()


async def finish(world: World, effects: Path) -> None:
    """A worker and a reconciler until every job has ended."""

    async def effect(payload: object, context: Any) -> None:
        with effects.open("a") as file:
            file.write(f"{context.key}\n")

    worker = SourceWorker(world.source, effect, SourceOptions(poll_s=0.05, hold_s=5.0, in_progress_max=4))
    working = asyncio.ensure_future(worker.run())
    reconciler = JobReconciler(world.parts)

    async def all_ended() -> bool:
        await reconciler.look()
        until = world.clock() + timedelta(hours=1)
        first = [JobKey(bucket, LONG_AGO, UUID(int=0)) for bucket in range(4)]
        pages = [await world.tables.jobs.scan(key.bucket_id, key, until, 500) for key in first]
        rows = [row for page in pages for row in page]
        return bool(rows) and all(row.status in (JobStatus.COMPLETED, JobStatus.DLQ) for row in rows)

    try:
        await eventually(all_ended, "every job has ended", SETTLED_S_MAX)
    finally:
        worker.drain()
        await working


@pytest.mark.parametrize("state", ["done", "again", "dead"])
async def test_a_kill_at_any_statement_of_a_run_loses_nothing(
    state: str, world: World, environment: dict[str, str], nursery: Nursery, tmp_path: Path
) -> None:
    effects, deaths = tmp_path / "effects", SENTENCES[state]
    jobs = [await world.create() for _ in range(deaths + 1)]
    calls = [("run", environment, str(job.job_id), n, state, str(effects)) for n, job in enumerate(jobs)]
    codes = await nursery.lives(*calls)
    assert codes == [-signal.SIGKILL] * deaths + [0]
    world.clock.move(seconds=YOUNG.total_seconds() + scheduler_mortal.LOCK_S + 1)
    await finish(world, effects)
    counts = Counter(effects.read_text().split())
    for n, job in enumerate(jobs):
        ran, told = n >= BEGUN, n >= BEGUN + TOLD
        repeats = {"done": ran and not told, "again": ran, "dead": ran and not told}
        # A failed run that was told may be retried, unless its death was written.
        if state == "dead" and told:
            assert counts[str(job.job_id)] in (1, 2)
        else:
            assert counts[str(job.job_id)] == 1 + repeats[state], (n, state)


async def test_a_kill_at_any_statement_of_a_creation_leaves_a_job_or_none(
    world: World, environment: dict[str, str], nursery: Nursery, tmp_path: Path
) -> None:
    seeds = [str(uuid_utils.uuid7()) for _ in range(4)]
    codes = await nursery.lives(*(("create", environment, seed, n) for n, seed in enumerate(seeds)))
    assert codes == [-signal.SIGKILL] * 3 + [0]
    world.clock.move(seconds=YOUNG.total_seconds() + 1)
    await finish(world, tmp_path / "effects")
    counts = Counter((tmp_path / "effects").read_text().split())
    assert [counts[seed] for seed in seeds] == [0, 0, 1, 1]
