"""One task's turn: take it, publish what the last holder left, crawl page by page, let go or end.

A turn is short. A long crawl is many turns, so that projects share the lanes and a process that dies costs little.
Failures are counted in the task's row and forgotten with the next page: a crawl of days may fail now and then, and is
given up only when it fails several times in a row. What our own servers do to us is no failure of the task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import structlog

import headrace
from headrace.errors import HeadraceError
from headrace.services import Backoff
from headrace_smap.collector.crawlers.registry import Crawlers
from headrace_smap.collector.halts import Halted, Halts, closing, unless_halted
from headrace_smap.collector.harvester import CANCELLED, DONE, FAILED, Harvester, TaskHolding
from headrace_smap.collector.tasks import CrawlBusy, CrawlFailed, CrawlLater, CrawlTask, Page
from headrace_smap.collector.wishes import CrawlWishes

PAGE_S_MAX = 600.0
DELAY_S_MAX = 120.0
AWAY_S = 1.0
Outcome = headrace.Done | headrace.Dead | headrace.Snooze
log = structlog.get_logger("smap")


class Crawl:
    """What the stages of the flow do."""

    def __init__(self, harvester: Harvester, crawlers: Crawlers, halts: Halts, wishes: CrawlWishes) -> None:
        self._harvester, self._crawlers, self._halts, self._wishes = harvester, crawlers, halts, wishes

    async def turn(self, task: CrawlTask, fence: int) -> Outcome:
        """One turn of a task under one claim."""
        try:
            holding = await self._harvester.begin(task, fence)
            return headrace.Done() if holding is None else await self._tried(holding)
        except HeadraceError as error:
            if not error.heals:
                raise
            log.warning("crawl.waiting", project=task.project, task=task.name, error=str(error))
            return headrace.Snooze(AWAY_S)

    async def left(self, project: str) -> list[CrawlTask]:
        """Tasks that nobody works on any more and that have not ended: their holders vanished once too often."""
        return await self._harvester.left(project)

    async def seal(self, project: str) -> Outcome:
        """The end of a project's crawl; repeated until it works."""
        try:
            await self._harvester.seal(project)
        except HeadraceError as error:
            if not error.heals:
                raise
            log.warning("seal.waiting", project=project, error=str(error))
            return headrace.Snooze(AWAY_S)
        log.info("project.sealed", project=project)
        return headrace.Done()

    async def _tried(self, holding: TaskHolding) -> Outcome:
        try:
            await self._harvester.publish(holding.task.project, holding.task.name)
            return await self._crawled(holding)
        except CrawlFailed as error:
            return await self._given_up(holding, str(error))
        except CrawlBusy as error:
            await self._harvester.rest(holding, holding.failures)
            return headrace.Snooze(error.after_s)
        except CrawlLater as error:
            return await self._failed(holding, str(error), error.after_s)
        except Exception as error:  # a crawler is anybody's
            if isinstance(error, HeadraceError) and error.heals:
                raise
            return await self._failed(holding, f"{type(error).__name__}: {error}", None)

    async def _crawled(self, begun: TaskHolding) -> Outcome:
        holding: TaskHolding | None = begun
        until = asyncio.get_running_loop().time() + self._wishes.turn_s
        with self._halts.watching(begun.task.project) as bell:
            async with closing(self._pages(begun)) as pages:
                while holding is not None and _wants_more(holding):
                    if holding.cursor != begun.cursor and asyncio.get_running_loop().time() >= until:
                        return await self._let_go(holding)
                    try:
                        page = await unless_halted(_next(pages), bell, PAGE_S_MAX)
                    except Halted:
                        return await self._let_go(holding)
                    holding = await self._harvester.store(holding, page)
        if holding is None:
            return headrace.Done()
        await self._harvester.end(holding, DONE if holding.open else CANCELLED)
        return headrace.Done()

    def _pages(self, begun: TaskHolding) -> AsyncIterator[Page]:
        """From where the last holder stopped; a task that wants nothing more needs no crawler either."""
        if not _wants_more(begun):
            return _no_pages()
        return self._crawlers.serving(begun.task.platform).pages(begun.task, begun.cursor)

    async def _let_go(self, holding: TaskHolding) -> Outcome:
        await self._harvester.rest(holding)
        return headrace.Snooze(0.0)

    async def _failed(self, holding: TaskHolding, reason: str, after_s: float | None) -> Outcome:
        # The pages of this turn are stored and have cleared the count; only the row knows.
        now = await self._harvester.begin(holding.task, holding.fence)
        if now is None:
            return headrace.Done()
        failures = now.failures + 1
        self._harvester.counts.crawl_failures += 1
        log.warning("crawl.failed", project=now.task.project, task=now.task.name, failures=failures, reason=reason)
        if failures >= self._wishes.attempts:
            return await self._given_up(now, reason)
        await self._harvester.rest(now, failures, reason)
        delay_s = Backoff(self._wishes.backoff_s, DELAY_S_MAX).pause_s(failures)
        return headrace.Snooze(max(delay_s, after_s or 0.0))

    async def _given_up(self, holding: TaskHolding, reason: str) -> Outcome:
        log.error("crawl.given_up", project=holding.task.project, task=holding.task.name, reason=reason)
        self._harvester.counts.crawls_given_up += 1
        await self._harvester.end(holding, FAILED, reason)
        return headrace.Dead(reason, rule="crawl_failed")


def _wants_more(holding: TaskHolding) -> bool:
    return holding.open and holding.room > 0 and not holding.ended


async def _no_pages() -> AsyncIterator[Page]:
    no_pages: tuple[Page, ...] = ()
    for page in no_pages:
        yield page


async def _next(pages: AsyncIterator[Page]) -> Page:
    """A crawler that ends without a last page has ended there."""
    try:
        return await anext(pages)
    except StopAsyncIteration:
        return Page(())
