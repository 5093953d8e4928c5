"""One batch of messages, from delivery to what must be true before it is acknowledged.

    read → look → fetch → analyse → dead letters → database → ledger → tell

Every step can be repeated, so a batch may be handled any number of times, by anybody, after a crash at any point. What
passes (a server is away) is raised, and the batch comes again; everything else ends as some post's own fault.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from headrace.errors import CallerError, Conflict, HeadraceError
from headrace.ports import Bus, Delivery
from headrace_smap.analytics import results
from headrace_smap.analytics.batch import PostBatch, read_batch
from headrace_smap.analytics.blob_fetcher import BlobFetcher
from headrace_smap.analytics.dead_letters import Letters
from headrace_smap.analytics.metrics import Measures
from headrace_smap.analytics.pipeline import Analysis
from headrace_smap.analytics.posts import HandledPost, fault_of
from headrace_smap.analytics.projects import Projects, Wish, work_of
from headrace_smap.analytics.suspects import Suspects
from headrace_smap.analytics.work import Outcome, Work
from headrace_smap.count.accountant import Accountant

PUBLISH_MAX = 1_000
NO_WISH = Wish()

log = structlog.get_logger("smap")


@dataclass(frozen=True, slots=True)
class HandlerParts:
    """What a handler works with."""

    bus: Bus
    accountant: Accountant
    projects: Projects
    fetcher: BlobFetcher
    analysis: Analysis
    letters: Letters
    suspects: Suspects
    measures: Measures


class Handler:
    """Deals with batches; any number at a time."""

    def __init__(self, means: HandlerParts) -> None:
        self._means = means
        self._large = asyncio.Lock()

    async def handle(self, deliveries: Sequence[Delivery]) -> None:
        """Returns when all of it is settled and told."""
        began, measures = time.monotonic(), self._means.measures
        batch = read_batch(deliveries)
        if batch.posts:
            measures.told(batch.posts[0].told_at)
        try:
            await self._walk(batch)
        except Exception as error:
            ours = isinstance(error, HeadraceError) and not isinstance(error, CallerError)
            if ours or len(deliveries) > 1 or not batch.posts:
                # The consumer waits, ends, or gives them one by one: the guilty one comes alone.
                raise
            await self._unexpected(batch.posts[0], error)
        self._means.letters.over([*batch.posts, *batch.strays])
        measures.aside("repeat", batch.repeats)
        measures.took(time.monotonic() - began)

    async def _walk(self, batch: PostBatch) -> None:
        await self._means.letters.send(batch.strays)
        self._means.measures.aside("stray", len(batch.strays))
        wishes = await self._means.projects.wishes({post.project for post in batch.posts})
        posts = [post for post in batch.posts if not wishes[post.project].deleted]
        self._means.measures.aside("deleted", len(batch.posts) - len(posts))
        for post in posts:
            post.spared = post.fault is None and wishes[post.project].cancelled
        suspects = [post for post in posts if post.suspect]
        others = [post for post in posts if not post.suspect] if suspects else posts
        if others:
            await self._analyse(others, wishes)
            await self._conclude(others)
        if suspects:
            await self._examine(suspects, wishes)

    async def _examine(self, suspects: Sequence[HandledPost], wishes: dict[str, Wish]) -> None:
        """Group by group, each to its end: what is settled is not charged for what comes after it."""
        async with self._means.suspects.turn:
            for group in await self._means.suspects.grouped(suspects):
                await self._analyse(group, wishes)
                await self._conclude(group)

    async def _analyse(self, posts: Sequence[HandledPost], wishes: dict[str, Wish]) -> None:
        """Every post comes to an end: found or at fault."""
        open_posts = [post for post in posts if post.fault is None and not post.spared]
        large = await self._means.fetcher.small(open_posts)
        await self._compute([post for post in open_posts if post.raw is not None], wishes)
        for post in large:
            # One at a time in the whole process: this is what bounds its memory.
            async with self._large:
                await self._means.fetcher.large(post)
                if post.raw is not None:
                    await self._compute([post], wishes)

    async def _compute(self, posts: Sequence[HandledPost], wishes: dict[str, Wish]) -> None:
        works = [work_of(post, wishes.get(post.project, NO_WISH)) for post in posts]
        suspects = [post for post in posts if post.suspect]
        if suspects:
            outcomes = await self._compute_suspects(suspects, works)
        else:
            outcomes = await self._means.analysis.run(works)
        for post, (found, fault) in zip(posts, outcomes, strict=True):
            post.found, post.fault, post.raw = found, fault, None

    async def _compute_suspects(self, suspects: Sequence[HandledPost], works: Sequence[Work]) -> list[Outcome]:
        await self._means.suspects.begin(suspects)
        try:
            outcomes = await self._means.analysis.run(works)
        except (Exception, asyncio.CancelledError):
            await self._means.suspects.take_back(suspects)
            raise
        await self._means.suspects.take_back(suspects)
        return outcomes

    async def _conclude(self, posts: Sequence[HandledPost]) -> None:
        """In this order: a crash after any of them repeats it and what comes after it."""
        means = self._means
        await means.letters.send([post for post in posts if post.fault])
        steps = [*results.rows(posts), *means.suspects.forgotten(posts)]
        try:
            await means.accountant.settle(results.ends(posts), steps)
        except Conflict:
            await self._count_singly(posts)
        except CallerError as error:
            await self._conclude_singly(posts, error)
            return
        events = results.events(posts, datetime.now(UTC))
        for start in range(0, len(events), PUBLISH_MAX):
            await means.bus.publish(events[start : start + PUBLISH_MAX])
        means.measures.ended(posts)

    async def _count_singly(self, posts: Sequence[HandledPost]) -> None:
        """All of it is in the database, and the ledger refuses a project: somebody else's key stands in the way. That
        project is counted when it is gone, by the reconciler; the others need not wait for it."""
        for project in sorted({post.project for post in posts}):
            try:
                await self._means.accountant.settle(results.ends([post for post in posts if post.project == project]))
            except Conflict as error:
                log.error("project.not_counted", project=project, error=str(error), hint=error.hint)

    async def _conclude_singly(self, posts: Sequence[HandledPost], error: CallerError) -> None:
        """The database refuses something of this. Alone, the guilty one is found out."""
        if len(posts) > 1:
            for post in posts:
                await self._conclude([post])
            return
        (post,) = posts
        if post.found is None:
            raise error
        post.found, post.fault = None, fault_of("not_storable", error)
        await self._conclude([post])

    async def _unexpected(self, post: HandledPost, error: Exception) -> None:
        post.found, post.raw, post.fault = None, None, fault_of("unexpected", error)
        await self._conclude([post])
