"""Code that keeps the interpreter to itself past the hold loses its claim, and what it says afterwards is refused."""

from __future__ import annotations

from pathlib import Path

import apsw
import killed_flows
import pytest
from killed_flows import Crew
from waiting import eventually

from headrace import JobState, connect
from headrace.core.recount import recount

ITEMS = 20
JOB_S_MAX = 120.0


@pytest.mark.parametrize("where", ["sqlite_url", "postgres_url"])
async def test_a_holder_that_held_the_interpreter_too_long_is_refused(
    request: pytest.FixtureRequest, crew: Crew, tmp_path: Path, where: str
) -> None:
    url: str = request.getfixturevalue(where)
    async with connect(url) as engine:
        job = await engine.submit_many(killed_flows.GREEDY, range(ITEMS))
        crew(url, "GREEDY", 2)
        view = await engine.wait(job, timeout_s=JOB_S_MAX)
        assert (view.state, view.stages["grab"].done) == (JobState.FINISHED, ITEMS)
        assert recount(await engine.store.audit(job)) == []
        assert len(await engine.store.finishes(job)) == 1
        # The holder wakes up after others have done its work, and is told so.
        log = tmp_path / "workers.log"
        await eventually(lambda: "claim.lost" in log.read_text("utf-8"), "the late holder is refused", JOB_S_MAX)
        assert (await engine.job(job)).stages["grab"].done == ITEMS
    file = apsw.Connection(str(tmp_path / "effects.db"))
    repeated = file.execute("SELECT count(*), count(DISTINCT fence) FROM attempt GROUP BY key HAVING count(*) > 1")
    assert any(attempts == fences for attempts, fences in repeated.fetchall())
