"""Everything is killed at once and started again: every new worker gets through its suspects and goes on."""

from __future__ import annotations

import os

import killed_flows
from killed_flows import Crew
from waiting import eventually

from headrace import JobState, connect
from headrace.core.recount import recount

ITEMS = 8 * int(os.environ.get("HEADRACE_TORTURE", "1"))
# A suspect runs alone, for a second.
JOB_S_MAX = 60.0 + 2 * ITEMS
DRAIN_S_MAX = 60.0


async def test_every_worker_goes_on_after_its_suspects(sqlite_url: str, crew: Crew) -> None:
    async with connect(sqlite_url) as engine:
        job = await engine.submit_many(killed_flows.LONG, range(ITEMS))
        workers = crew(sqlite_url, "LONG", 2)

        async def held() -> bool:
            # On a busy machine the first item may end before the last is claimed: those that are held are suspects too.
            tally = (await engine.job(job)).stages["last"]
            return tally.held == ITEMS or tally.done > 0

        await eventually(held, "everything is held", JOB_S_MAX)
        for child in workers.children:
            child.kill()
        for child in workers.children:
            child.wait()
        assert workers.replace_dead() == 2
        view = await engine.wait(job, timeout_s=JOB_S_MAX)
        assert (view.state, view.stages["last"].done) == (JobState.FINISHED, ITEMS)
        assert recount(await engine.store.audit(job)) == []
    # A worker that waits for ever does not hear of a drain.
    for child in workers.children:
        child.terminate()
    for child in workers.children:
        assert child.wait(DRAIN_S_MAX) == 0
