"""Collector processes on real servers are killed and frozen in mid-crawl: nothing is lost and nothing doubled."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from collector_running import LISTENER, blobs_count, order, report, sealed, told
from smap_processes import town
from waiting import eventually

from headrace.ports import Subscription
from headrace.testing.passage import RealPassage
from headrace_smap.frame import FRAME
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.values import SEALED

TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
KEYWORDS = [f"word-{number}" for number in range(6)]
POSTS = 120 * TIMES
KILLS = 2 * TIMES
HOLD_S = 1.5
WISHES = {
    "SMAP_CRAWLERS": f"*=simulated:posts={POSTS}&page=10&latency=0.1&overlap=0.1",
    "SMAP_CRAWL_HOLD_S": str(HOLD_S),
    "SMAP_CRAWL_TURN_S": "0.5",
    "SMAP_CRAWL_LANES": "4",
}


async def test_collectors_that_are_killed_and_frozen_lose_and_double_nothing(
    real_environment: dict[str, str], tmp_path: Path
) -> None:
    environment = {**real_environment, **WISHES}
    async with open_parts(FRAME.load(environment)) as parts:
        await parts.bus.subscribe(Subscription(LISTENER, ("data.collected",)))
        with town(environment, tmp_path) as place:
            collectors = await asyncio.to_thread(place.all, "collector", "collector")
            await order(parts, "killed", keywords=KEYWORDS, targets=[{"platform": "tiktok"}])
            part = POSTS * len(KEYWORDS) // (KILLS + 4)
            for kill in range(1, KILLS + 1):
                await reached(parts, kill * part)
                collectors.pop(0).kill()
                collectors.append(place.start(["collector"]))
            # One of them stands still past its holds, and then goes on as if nothing had happened. It is not waited for
            # the other one until then: the first to be ready might have crawled everything meanwhile.
            await collectors[0].ready()
            await reached(parts, KILLS * part + part // 4)
            collectors[0].freeze()
            await collectors[1].ready()
            await reached(parts, (KILLS + 1) * part)
            await RealPassage().past(HOLD_S)
            collectors[0].wake()
            total = (await sealed(parts, "killed", 120.0 * TIMES)).total
            tasks = await report(parts, "killed")
            assert {state for _, state, _, _ in tasks} == {"done"}
            assert sum(posts for _, _, posts, _ in tasks) == total
            assert await blobs_count(parts, "killed") == total
            assert len(await told(parts)) == total
            assert POSTS * len(KEYWORDS) * 0.8 < total <= POSTS * len(KEYWORDS)


async def reached(parts: SmapParts, posts: int) -> None:
    """So many posts are found, and the crawl goes on."""

    async def look() -> bool:
        standing = await parts.ledger.tally("killed")
        assert standing is None or standing.status not in SEALED, "it was over before anybody was killed"
        return standing is not None and standing.total > posts

    await eventually(look, f"{posts} posts are found", 120)
