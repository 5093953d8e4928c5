"""Real processes that are killed as they fire: every moment has its job, and none has two."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import datetime
from itertools import pairwise
from random import Random

import pytest
from killed_flows import HOLD_S, Crew
from waiting import eventually

from headrace import Engine, JobState, connect
from headrace.ports import JobFilter

# `make torture` asks for many times as much.
KILLS = 5 * int(os.environ.get("HEADRACE_TORTURE", "1"))
FIRE_S = 0.08


async def moments(engine: Engine) -> list[datetime]:
    """The moments of all jobs, by their keys."""
    jobs = await engine.jobs(JobFilter(flow="ticking", limit=10_000))
    return sorted(datetime.fromisoformat((job.key or "").removeprefix("ticking@")) for job in jobs)


async def all_finished(engine: Engine) -> bool:
    return not await engine.jobs(JobFilter(flow="ticking", state=JobState.OPEN))


@pytest.mark.parametrize("store", ["sqlite_url", "postgres_url"])
async def test_workers_that_are_killed_as_they_fire_miss_nothing_and_repeat_nothing(
    store: str, crew: Crew, request: pytest.FixtureRequest
) -> None:
    url, chance = request.getfixturevalue(store), Random(7)
    async with connect(url) as engine:
        workers = crew(url, "TICKING", 2)
        for kill in range(KILLS):
            victim = chance.choice(await eventually(workers.ready, "a worker is ready", 60.0))
            # Shortly after the beginning of a second, when somebody fires.
            await asyncio.sleep(1.0 - time.time() % 1.0 + chance.uniform(0.0, FIRE_S))
            if kill == KILLS // 2:
                await workers.freeze(victim, 2 * HOLD_S)
            workers.kill(victim)
        ended = datetime.now().astimezone()
        await eventually(lambda: _past(engine, ended), "the last moments fire", 60.0)
        await eventually(lambda: all_finished(engine), "all jobs end", 60.0)
        fired = await moments(engine)
        (view,) = await engine.schedules.list()
    steps = {(later - sooner).total_seconds() for sooner, later in pairwise(fired)}
    assert (steps, view.missed) == ({1.0}, 0)
    assert len(fired) >= KILLS
    assert workers.deaths == KILLS


async def _past(engine: Engine, when: datetime) -> bool:
    return any(moment > when for moment in await moments(engine))
