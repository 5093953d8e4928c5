"""Real processes, real kills: nothing is lost, nothing is done twice, every finish line is crossed once."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

import apsw
import killed_flows
import pytest
from killed_flows import HOLD_S, Crew
from waiting import eventually

from headrace import Engine, JobState, connect
from headrace.core.errors import TryAgain, Unreachable
from headrace.core.recount import recount
from headrace.ports import DeadFilter
from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.rig.workers import WorkerProcesses
from headrace.testing.witness import Witness

T = TypeVar("T")
# `make torture` asks for many times as much.
TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
KILLS = 15 * TIMES
FREEZES = TIMES
STOPS = 2 * TIMES
ROOTS = 25
JOB_S_MAX = 90.0
STORE_S_MAX = 60.0


@dataclass(slots=True)
class Siege:
    """Jobs under attack: there is always one under way while something is killed."""

    engine: Engine
    workers: WorkerProcesses
    chance: Random
    witness: Witness
    jobs: list[str]
    effects: apsw.Connection

    async def keep_busy(self) -> None:
        """Submit another job when the last one has ended, and look at the account of it."""
        if self.jobs and (await surely(self.engine.job, self.jobs[-1])).state is JobState.OPEN:
            findings = self.witness.look(await surely(self.engine.store.audit, self.jobs[-1]))
            assert not findings, findings
            return
        self.jobs.append(await surely(self.engine.submit_many, killed_flows.FAN_OUT, range(ROOTS)))

    async def kill_and_freeze(self) -> None:
        freezes = {KILLS * (number + 1) // (FREEZES + 1) for number in range(FREEZES)}
        for kill in range(KILLS):
            await self.keep_busy()
            if kill in freezes:
                await self.freeze()
            victim = await self.someone_at_work()
            if kill % 2 == 0:
                # On a busy machine a worker that is ready takes its time to begin; kills that hit nobody prove nothing.
                await self.begins(self.workers.children[victim].pid, 0)
            await asyncio.sleep(self.chance.uniform(0.0, 0.3))
            self.workers.kill(victim)

    async def someone_at_work(self) -> int:
        return self.chance.choice(await eventually(self.ready, "a worker is ready", JOB_S_MAX))

    def ready(self) -> list[int]:
        if not (ready := self.workers.ready()):
            self.workers.replace_dead()
        return ready

    async def freeze(self) -> None:
        """One that was frozen past its hold finds work again."""
        index = await self.someone_at_work()
        pid = self.workers.children[index].pid
        await self.workers.freeze(index, 2.5 * HOLD_S)
        await self.begins(pid, self.attempts(pid))

    async def begins(self, pid: int, before: int) -> None:
        async def goes_on() -> bool:
            await self.keep_busy()
            return self.attempts(pid) > before

        await eventually(goes_on, f"worker {pid} begins an item", JOB_S_MAX)

    def attempts(self, pid: int) -> int:
        return int(self.effects.execute("SELECT count(*) FROM attempt WHERE pid = ?", (pid,)).fetchall()[0][0])

    async def stop_the_server(self, server: PostgresServer) -> None:
        """Spread over the kills."""
        for number in range(STOPS):
            due = KILLS * (number + 1) // (STOPS + 1)
            await eventually(lambda due=due: self.workers.deaths >= due, f"{due} kills", JOB_S_MAX * KILLS)
            server.stop("immediate")
            server.start()

    async def end(self) -> None:
        for job in self.jobs:
            await eventually(lambda job=job: self.ended(job), f"job {job} ends", JOB_S_MAX)

    async def ended(self, job: str) -> bool:
        self.workers.replace_dead()
        return (await surely(self.engine.job, job)).state is not JobState.OPEN


async def surely(call: Callable[..., Awaitable[T]], *values: object) -> T:
    """The same call again while the store is away."""

    async def answered() -> tuple[T] | None:
        with suppress(TryAgain, Unreachable):
            return (await call(*values),)
        return None

    return (await eventually(answered, "the store answers", STORE_S_MAX))[0]


async def prove(engine: Engine, jobs: list[str], effects: apsw.Connection) -> None:
    """Everything that must be true of the account and of the effects, whatever happened."""
    ledger = apsw.Connection(f"{effects.filename}-sink")
    applied = Counter(dict(ledger.execute("SELECT key, count(*) FROM applied GROUP BY key").fetchall()))
    assert set(applied.values()) == {1}
    attempts, processes = effects.execute("SELECT count(*), count(DISTINCT pid) FROM attempt").fetchall()[0]
    print(f"{len(jobs)} jobs, {len(applied)} effects, {attempts} attempts in {processes} processes")
    # Kills that hit nobody at work would prove nothing.
    assert processes > KILLS / 2
    assert attempts > len(applied)
    for job in jobs:
        view = await engine.job(job)
        assert view.state is JobState.FINISHED
        assert recount(await engine.store.audit(job)) == []
        assert [finish.generation for finish in await engine.store.finishes(job)] == [1]
        assert view.stages["find"].total == ROOTS
        assert view.stages["read"].total == view.stages["find"].done * killed_flows.FAN
        for stage in ("find", "read", "report"):
            items = await _items(engine, job, stage)
            assert len(items) == view.stages[stage].total
            done = [seq for seq, state in items.items() if state == "done"]
            assert len(done) == view.stages[stage].done
            assert all(applied[f"{job}/{stage}/{seq}"] == 1 for seq in done)
        letters = await engine.dead(DeadFilter(job=job))
        # A kill from outside may hit the same suspect three times; nothing else may die here.
        assert {letter.reason for letter in letters} <= {"worker_lost"}
        assert len(letters) == sum(tally.dead for tally in view.stages.values()) <= 3


async def _items(engine: Engine, job: str, stage: str) -> dict[int, str]:
    found: dict[int, str] = {}
    while page := await engine.items(job, stage, max(found, default=-1), 1_000):
        found.update({item.seq: item.state for item in page})
    return found


@pytest.fixture
def effects(tmp_path: Path) -> Iterator[apsw.Connection]:
    """What the worker processes note of their attempts."""
    with closing(killed_flows.open_effects(str(tmp_path / "effects.db"))) as connection:
        yield connection


async def test_kill_9_and_freezing_over_sqlite(sqlite_url: str, crew: Crew, effects: apsw.Connection) -> None:
    async with connect(sqlite_url) as engine:
        siege = Siege(engine, crew(sqlite_url, "FAN_OUT", 3), Random(1), Witness(), [], effects)
        await siege.kill_and_freeze()
        await siege.end()
        assert siege.workers.deaths >= KILLS
        await prove(engine, siege.jobs, effects)


async def test_kill_9_and_a_stopping_server_over_postgres(
    postgres_server: PostgresServer, postgres_url: str, crew: Crew, effects: apsw.Connection
) -> None:
    async with connect(postgres_url) as engine:
        siege = Siege(engine, crew(postgres_url, "FAN_OUT", 3), Random(2), Witness(), [], effects)
        await asyncio.gather(siege.kill_and_freeze(), siege.stop_the_server(postgres_server))
        await siege.end()
        assert siege.workers.deaths >= KILLS
        await prove(engine, siege.jobs, effects)
