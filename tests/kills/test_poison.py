"""Three items that kill their process among ten thousand: they die alone, and everything else is done."""

from __future__ import annotations

import killed_flows
import pytest
from killed_flows import Crew
from waiting import eventually

from headrace import JobState, connect
from headrace.core.claims import CRASHES_MAX
from headrace.core.recount import recount
from headrace.ports import DeadFilter

ITEMS = 10_000
POISONED = 3
# A dozen processes die one after another, and a machine that is busy with other tests takes 5 s for each.
JOB_S_MAX = 180.0


@pytest.mark.parametrize("kind", ["sqlite_url", "postgres_url"])
async def test_three_poisoned_items_among_ten_thousand_die_alone(
    kind: str, crew: Crew, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(kind)
    async with connect(url) as engine:
        job = await engine.submit_many(killed_flows.POISON, range(ITEMS))
        workers = crew(url, "POISON", 2)

        async def ended() -> bool:
            if (await engine.job(job)).state is not JobState.OPEN:
                return True
            workers.replace_dead()
            return False

        await eventually(ended, "the job ends", JOB_S_MAX)
        view = await engine.job(job)
        tally = view.stages["swallow"]
        assert (view.state, tally.done, tally.dead) == (JobState.FINISHED, ITEMS - POISONED, POISONED)
        letters = await engine.dead(DeadFilter(job=job))
        assert {letter.reason for letter in letters} == {"worker_lost"}
        assert recount(await engine.store.audit(job)) == []
        # Each kills once among others and then alone until it has had its chances.
        assert workers.deaths <= POISONED * (1 + CRASHES_MAX)
