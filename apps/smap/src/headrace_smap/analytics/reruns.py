"""Analysing a project's stored blobs again with the modules of today.

Only results are rewritten: nothing is counted again, and nothing is told, because every post was told of once under an
id that a repeat would carry as well. It can be stopped and started anywhere: what has the present model version and
was dated by the present zone is left alone. A post whose blob is gone or fails now keeps the result that it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from headrace_smap.analytics import results
from headrace_smap.analytics.blob_fetcher import BlobFetcher
from headrace_smap.analytics.pipeline import Analysis
from headrace_smap.analytics.posts import HandledPost
from headrace_smap.analytics.projects import Wish, wish_of, work_of
from headrace_smap.database import Database

PAGE = 200


@dataclass(frozen=True, slots=True)
class Rerun:
    """`rewritten` results are new; `kept` ones could not be made anew."""

    rewritten: int = 0
    kept: int = 0


class Rerunner:
    """Works through a project page by page."""

    def __init__(self, database: Database, fetcher: BlobFetcher, analysis: Analysis) -> None:
        self._database, self._fetcher, self._analysis = database, fetcher, analysis

    async def rerun(self, project: str, version: str, zone: ZoneInfo, stop: asyncio.Event | None = None) -> Rerun:
        """All results of the project that are not of this model version, or whose days are of another zone."""
        after, rewritten, kept = "", 0, 0
        ((_, *known),) = await self._database.rows("analytics_projects", projects=(project,))
        wish = wish_of(known, zone)
        while not (stop and stop.is_set()):
            values = {"project": project, "after": after, "version": version, "timezone": zone.key, "room": PAGE}
            page = await self._database.rows("outdated_results", **values)
            if not page:
                break
            posts = [HandledPost(project, path, path, b"", keyword=word, crawled_at=at) for path, word, at in page]
            await self._analyse(posts, wish)
            for step in results.rows(posts):
                await self._database.transact(step)
            found = sum(post.found is not None for post in posts)
            rewritten, kept, after = rewritten + found, kept + len(posts) - found, posts[-1].path
        return Rerun(rewritten, kept)

    async def _analyse(self, posts: Sequence[HandledPost], wish: Wish) -> None:
        large = await self._fetcher.small(posts)
        await self._compute([post for post in posts if post.raw is not None], wish)
        for post in large:
            await self._fetcher.large(post)
            if post.raw is not None:
                await self._compute([post], wish)

    async def _compute(self, posts: Sequence[HandledPost], wish: Wish) -> None:
        works = [work_of(post, wish) for post in posts]
        for post, (found, fault) in zip(posts, await self._analysis.run(works), strict=True):
            post.found, post.fault, post.raw = found, fault, None
