"""The headrace flow of a project: `crawl`, one item per task, then `seal`, once, whatever became of the tasks.

The account of the flow gives what crawling needs: a task is held by one process at a time and comes back if that dies,
and the seal comes after the last task, also when some failed for good.

A task that was alone in three processes that died is a dead item, because it may be what killed them. It may as well
have had bad luck, and its posts would be missing: so such tasks get a few more rounds, each a job of its own, before
the project is sealed without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import headrace
from headrace_smap.collector.crawl import PAGE_S_MAX, Crawl, Outcome
from headrace_smap.collector.tasks import CrawlTask

NAME = "smap-collect"
SEAL_TRIES = 1_000_000
ROUNDS_MAX = 10
KEEP_S = 7 * 86_400.0


def collect_flow(crawl_of: Crawl, engine: headrace.Engine, lanes: int) -> headrace.Flow:
    """The flow, for submitting jobs and for working on them."""
    flow = headrace.Flow(NAME)

    @flow.stage(concurrency=lanes, tolerate="100%", timeout_s=PAGE_S_MAX * 2)
    async def crawl(task: CrawlTask, context: headrace.Context) -> Outcome:
        return await crawl_of.turn(task, context.fence)

    @flow.stage(after="crawl", always=True, retry=headrace.backoff(SEAL_TRIES, cap_s=30.0))
    async def seal(crawled: headrace.Tally, context: headrace.Context) -> Outcome:
        project, number = _read_key((await engine.job(context.job)).key)
        if crawled.dead and not crawled.cancelled and number < ROUNDS_MAX and (left := await crawl_of.left(project)):
            # Another answer to the same key: this very round was opened before, and has gone on.
            with suppress(headrace.Conflict):
                await open_round(engine, flow, project, left, number + 1)
            return headrace.Done()
        return await crawl_of.seal(project)

    return flow


async def open_round(
    engine: headrace.Engine, flow: headrace.Flow, project: str, tasks: Sequence[CrawlTask], number: int = 1
) -> str:
    """The job that crawls these tasks. The first one's key is the project, whose id cannot hold a newline."""
    key = project if number == 1 else f"{project}\n{number}"
    return await engine.submit_many(flow, tasks, key=key, item_key=lambda task: task.name, keep_s=KEEP_S)


def _read_key(key: str | None) -> tuple[str, int]:
    project, _, number = (key or "").partition("\n")
    return project, int(number or 1)
