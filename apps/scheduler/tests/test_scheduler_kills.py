"""kill -9 before every statement of a run, in real processes, also between those that are sent together, whose order
nobody promises: nothing is lost, and an effect is repeated only if the run had not said that it was over."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import uuid_utils
from scheduler_losses import run_all_out, run_out
from scheduler_world import HOLD_S, World
from waiting import eventually

from headrace.core.claims import CRASHES_MAX
from headrace.sources import SourceOptions, SourceWorker
from headrace_scheduler.jobs.values import JobStatus
from headrace_scheduler.reconciler.reconciler import YOUNG, JobReconciler
from headrace_scheduler.work.lost_runs import LOST

SETTLED_S_MAX = 120.0
# It is lost twice in company, three times alone, and a worker may die with it before it has begun.
LIVES_MAX = 10
# scan; runs, outcome; lock; row, where, row; four deletions; release; and the next of three jobs
PURGE_STATEMENTS = 12
# lock; read pending, where, row; history, delete pending, running
BEGUN = 7
# look at the lock; how it failed; end of the run in the history
TOLD = {"done": 2, "again": 3, "dead": 3}
# done: completed; release. again: failed; cancelled meanwhile?; where, pending, status; release.
# dead: failed; letter, dlq; release
LAST = {"done": 2, "again": 6, "dead": 4}


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

    worker = SourceWorker(world.source, effect, SourceOptions(poll_s=0.05, hold_s=HOLD_S, in_progress_max=4))
    working = asyncio.ensure_future(worker.run())
    reconciler = JobReconciler(world.parts)

    async def all_ended() -> bool:
        await reconciler.look()
        rows = await world.rows()
        return bool(rows) and all(row.status in (JobStatus.COMPLETED, JobStatus.DLQ) for row in rows)

    try:
        await eventually(all_ended, "every job has ended", SETTLED_S_MAX)
    finally:
        worker.drain()
        await working


@pytest.mark.parametrize("end", ["done", "again", "dead", "done backwards", "again backwards", "dead backwards"])
async def test_a_kill_at_any_statement_of_a_run_loses_nothing(
    end: str, world: World, environment: dict[str, str], nursery: Nursery, tmp_path: Path
) -> None:
    state = end.split()[0]
    effects, deaths = tmp_path / "effects", BEGUN + TOLD[state] + LAST[state]
    jobs = [await world.create() for _ in range(deaths + 1)]
    calls = [("run", environment, str(job.job_id), n, end, str(effects)) for n, job in enumerate(jobs)]
    codes = await nursery.lives(*calls)
    assert codes == [-signal.SIGKILL] * deaths + [0]
    await run_all_out(world)
    world.clock.move(seconds=YOUNG.total_seconds() + 2)
    await finish(world, effects)
    counts = Counter(effects.read_text().split())
    for n, job in enumerate(jobs):
        ran, told = n >= BEGUN, n >= BEGUN + TOLD[state]
        repeats = {"done": ran and not told, "again": ran, "dead": ran and not told}
        # A failed run that was told may be retried, unless its death was written.
        if state == "dead" and told:
            assert counts[str(job.job_id)] in (1, 2)
        else:
            assert counts[str(job.job_id)] == 1 + repeats[state], (n, state)


async def test_a_job_that_kills_its_worker_dies_and_those_beside_it_complete(
    world: World, environment: dict[str, str], nursery: Nursery
) -> None:
    deadly = await world.create({"type": "command", "argv": ["sh", "-c", "kill -9 $PPID"]})
    beside = [await world.create({"type": "sleep", "seconds": 0.3}) for _ in range(3)]
    allowed = {**environment, "WORKER_COMMAND_ALLOW": "sh -c", "LOCK_TTL_MS": "60000", "WORKER_POLL_INTERVAL_MS": "50"}
    deaths = 0
    while (await nursery.lives(("work", allowed)))[0] == -signal.SIGKILL:
        await run_all_out(world)
        deaths += 1
        assert deaths <= LIVES_MAX, "it runs for ever"
    assert [await world.status(job.job_id) for job in beside] == [JobStatus.COMPLETED] * 3
    dead = await world.tables.dead.find(deadly.job_id)
    assert dead is not None
    assert (dead.error_class, dead.attempts) == ("worker_lost", 0)
    job = await world.tables.jobs.find(deadly.job_id)
    assert job is not None
    runs = {run.fencing_token: run for run in await world.tables.history.runs(deadly.job_id)}
    lost = sorted(token for token, run in runs.items() if run.status == LOST and token is not None)
    assert len(lost) == deaths
    assert job.losses.crash_tokens == {*lost[-CRASHES_MAX:]}, "those before were not alone"


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


async def test_a_kill_at_any_statement_of_a_purge_leaves_nothing_behind(
    embedded: World, embedded_environment: dict[str, str], nursery: Nursery
) -> None:
    embedded.clock.move(days=-40)
    jobs = [await embedded.insert_foreign(bucket, embedded.clock()) for bucket in (0, 0, 1)]
    for job_id in jobs:
        item = await embedded.hold(job_id)
        assert item is not None
        assert await embedded.source.settle(item, embedded.settlement())
    embedded.clock.move(days=40)
    codes = []
    for n in range(PURGE_STATEMENTS):
        codes += await nursery.lives(("purge", embedded_environment, n))
        await run_out(embedded, *jobs)
    assert codes == [-signal.SIGKILL] * PURGE_STATEMENTS
    assert await nursery.lives(("purge", embedded_environment, 1_000)) == [0]
    assert await embedded.rows() == []
    for job_id in jobs:
        assert await embedded.recorded.rows("job_where", job_id=job_id) == []
        assert await embedded.tables.history.runs(job_id) == []
