"""A small job does not wait behind a million items of somebody else."""

from __future__ import annotations

import asyncio

import killed_flows
from killed_flows import Crew

from headrace import connect

CROWD = 1_000_000
FEW = 10
WITHIN_S = 2.0
STARTED_S_MAX = 30.0


async def test_ten_items_of_another_tenant_end_within_two_seconds(sqlite_url: str, crew: Crew) -> None:
    async with connect(sqlite_url) as engine:
        crowd = await engine.submit_many(killed_flows.SLOW, range(CROWD), tenant="crowd")
        crew(sqlite_url, "SLOW", 2)
        async with asyncio.timeout(STARTED_S_MAX):
            while (await engine.job(crowd)).stages["nap"].done < 100:
                await asyncio.sleep(0.05)
        few = await engine.submit_many(killed_flows.SLOW, range(FEW), tenant="few")
        view = await engine.wait(few, timeout_s=WITHIN_S)
        assert view.stages["nap"].done == FEW
        assert (await engine.job(crowd)).stages["nap"].waiting > CROWD / 2
