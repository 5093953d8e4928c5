"""From a page to posts that everybody knows of: blobs → rows → total → events → mark. A crash anywhere is harmless.

    blobs      written before anything names them: who reads of a post finds it
    rows       new posts, their count in the project and the task's cursor in one transaction, under the project's lock.
               It decides: what is not in it was not found. It refuses a holder that lost its claim, a project that was
               sealed or cancelled, and whatever is over the cap
    total      the ledger expects what was found, before anybody could be done with it
    events     `data.collected`, the same bytes under the same id in every repeat
    mark       published

Whoever takes a task up again first publishes what was found and not marked. A crash before the rows leaves at most
blobs that nobody names: the page is read again, or they are swept away at the seal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec
import structlog

from headrace.errors import TryAgain
from headrace_smap.collector.blob_names import blob_path, blob_prefix
from headrace_smap.collector.metrics import Counts
from headrace_smap.collector.tasks import CURSOR_CHARS_MAX, CrawlTask, Page, Post
from headrace_smap.count.accountant import Accountant
from headrace_smap.envelope import Collected, data_collected, moment, traced
from headrace_smap.parts import SmapParts

POSTS_AT_ONCE = 200
UPLOADS_AT_ONCE = 32
ERROR_CHARS_MAX = 500
WAITING, CRAWLING, DONE, FAILED, CANCELLED = "waiting", "crawling", "done", "failed", "cancelled"
log = structlog.get_logger("smap")


class NobodyListens(TryAgain):
    """Events of found posts would be lost: nobody has subscribed to them yet."""


@dataclass(frozen=True, slots=True)
class TaskHolding:
    """A task in the hands of one holder. `open`: its project wants posts; `room`: how many more."""

    task: CrawlTask
    fence: int
    cursor: str | None
    ended: bool
    pages: int
    failures: int
    room: int
    open: bool


class Harvester:
    """Stores what crawlers bring. All methods may be repeated as they are."""

    def __init__(self, parts: SmapParts, accountant: Accountant, now: Callable[[], datetime]) -> None:
        self._parts, self._accountant, self._now = parts, accountant, now
        self._uploads = asyncio.Semaphore(UPLOADS_AT_ONCE)
        self.counts = Counts()

    async def begin(self, task: CrawlTask, fence: int) -> TaskHolding | None:
        """Take a task. None: it has ended, or a newer claim has it."""
        place = {"project": task.project, "task": task.name}
        steps = ("crawl_begin", {**place, "fence": fence, "now": self._now()}), ("crawl_standing", place)
        rows = (await self._parts.database.transact(*steps))[1]
        if not rows or rows[0][0] != CRAWLING or rows[0][1] != fence:
            return None
        _, _, cursor, ended, pages, failures, found, is_open = rows[0]
        room = max(0, self._cap(task) - (found or 0))
        return TaskHolding(task, fence, cursor, ended, pages, failures, room, is_open)

    async def store(self, holding: TaskHolding, page: Page) -> TaskHolding | None:
        """Everything that follows from a page; None if the task is not ours any more."""
        if page.cursor is not None and (len(page.cursor) > CURSOR_CHARS_MAX or not page.cursor.isprintable()):
            raise ValueError(f"a cursor must be a printable text of at most CURSOR_CHARS_MAX = {CURSOR_CHARS_MAX:,}")
        posts = {blob_path(holding.task.platform, holding.task.project, post.id): post for post in page.posts}
        pieces = _pieces(list(posts.items()))
        for number, piece in enumerate(pieces):
            last = number == len(pieces) - 1
            # Before the last piece the cursor stays: whoever comes next reads the page again.
            cursor, ended = (page.cursor, page.cursor is None) if last else (holding.cursor, False)
            following = replace(holding, cursor=cursor, ended=ended, pages=holding.pages + last)
            stored = await self._store(following, piece)
            if stored is None:
                return None
            holding = stored
            await self.publish(holding.task.project, holding.task.name)
        return holding

    async def publish(self, project: str, task: str | None) -> None:
        """Tell of what was found and not told, by one task or by all."""
        while True:
            wanted = ("crawl_unpublished", {"project": project, "task": task, "room": POSTS_AT_ONCE})
            rows, count = await self._parts.database.transact(wanted, ("crawl_found", {"project": project}))
            if not rows or not count or not count[0][1]:
                return
            await self._accountant.expect(project, count[0][0])
            await self._tell(project, rows, count[0][2])
            items = [item for item, _, _ in rows]
            await self._parts.database.rows("crawl_published", project=project, items=items)
            self.counts.published += len(items)
            if len(rows) < POSTS_AT_ONCE:
                return

    async def rest(self, holding: TaskHolding, failures: int = 0, error: str | None = None) -> None:
        """Let go of a task that goes on later."""
        await self._leave("crawl_rest", holding, failures=failures, error=_words(error))

    async def end(self, holding: TaskHolding, state: str, error: str | None = None) -> None:
        """The task is over; a failure is kept for the project's report."""
        await self._leave("crawl_end", holding, state=state, error=_words(error))

    async def left(self, project: str) -> list[CrawlTask]:
        """Tasks that have not ended, of a project that still wants posts."""
        rows = await self._parts.database.rows("crawl_left", project=project)
        return [msgspec.json.decode(document, type=CrawlTask) for (document,) in rows]

    async def seal(self, project: str) -> None:
        """All tasks have ended: nobody adds any more, everything is told, and the total is fixed at what was found."""
        database, place = self._parts.database, {"project": project}
        await database.transact(("crawl_hold", place), ("crawl_close", {**place, "now": self._now()}))
        await self.publish(project, None)
        count = await database.rows("crawl_found", **place)
        if not count or not count[0][1]:
            return
        await self._accountant.seal(project, count[0][0])
        await self._sweep(project)

    async def _store(self, holding: TaskHolding, piece: Sequence[tuple[str, Post]]) -> TaskHolding | None:
        task, database = holding.task, self._parts.database
        known = await self._known(task.project, [path for path, _ in piece])
        new = [(path, post.body) for path, post in piece if path not in known][: holding.room]
        await self._upload_all(new)
        at = moment(self._now())
        rows = [{"position": number, "item": path, "crawled_at": at} for number, (path, _) in enumerate(new)]
        place: dict[str, Any] = {"project": task.project, "task": task.name, "fence": holding.fence}
        advance = {"cursor": holding.cursor, "ended": holding.ended, "pages": holding.pages, "now": self._now()}
        limits = {"platform": task.platform, "rows": rows, "posts_max": self._cap(task)}
        answers = await database.transact(
            ("crawl_hold", {"project": task.project}),
            ("crawl_add", {**place, **limits}),
            ("crawl_advance", {**place, **advance}),
            ("crawl_known", {"project": task.project, "items": [path for path, _ in new]}),
            ("crawl_standing", {"project": task.project, "task": task.name}),
        )
        state, fence, _, _, _, _, found, is_open = answers[4][0] if answers[4] else (None,) * 8
        if state != CRAWLING or fence != holding.fence:
            # The blobs stay: who has the task now may be about to name the same ones.
            return None
        taken = {item for (item,) in answers[3]}
        # What is refused now is refused for ever: the cap was reached, or the project wants no more.
        await self._parts.blobs.delete(path for path, _ in new if path not in taken)
        self.counts.found += len(taken)
        room = max(0, self._cap(task) - (found or 0))
        return replace(holding, failures=0, room=room, open=bool(is_open))

    def _cap(self, task: CrawlTask) -> int:
        return min(self._parts.settings.posts_max, task.posts_max or self._parts.settings.posts_max)

    async def _known(self, project: str, items: list[str]) -> set[str]:
        return {item for (item,) in await self._parts.database.rows("crawl_known", project=project, items=items)}

    async def _upload_all(self, blobs: Sequence[tuple[str, bytes]]) -> None:
        """All at once. The first that fails stops the others: none is written when the task is somebody else's."""
        try:
            async with asyncio.TaskGroup() as group:
                for path, body in blobs:
                    group.create_task(self._upload(path, body))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _upload(self, path: str, body: bytes) -> None:
        async with self._uploads:
            await self._parts.blobs.put(path, body)

    async def _tell(self, project: str, rows: Iterable[Sequence[str]], traceparent: str) -> None:
        told = (
            data_collected(Collected(project, item, platform, crawled_at), datetime.fromisoformat(crawled_at))
            for item, platform, crawled_at in rows
        )
        events = [traced(event, traceparent) for event in told]
        if not all(await self._parts.bus.publish(events)):
            self.counts.unheard += 1
            log.error("collector.nobody_listens", project=project, posts=len(events))
            raise NobodyListens("nobody has subscribed to data.collected", "start an analytics service")

    async def _leave(self, name: str, holding: TaskHolding, **values: object) -> None:
        place = {"project": holding.task.project, "task": holding.task.name, "fence": holding.fence}
        await self._parts.database.rows(name, **place, **values, now=self._now())

    async def _sweep(self, project: str) -> None:
        """Remove blobs that a lost holder wrote and nobody named: the page it had was another one when read again."""
        for (platform,) in await self._parts.database.rows("crawl_lost", project=project):
            batch: list[str] = []
            async for path in self._parts.blobs.list(blob_prefix(platform, project)):
                batch.append(path)
                if len(batch) >= POSTS_AT_ONCE:
                    await self._remove_unnamed(project, batch)
                    batch = []
            await self._remove_unnamed(project, batch)

    async def _remove_unnamed(self, project: str, paths: list[str]) -> None:
        known = await self._known(project, paths)
        await self._parts.blobs.delete(path for path in paths if path not in known)


def _words(error: str | None) -> str | None:
    """An error as it is kept: it may hold whatever a server has sent."""
    if error is None:
        return None
    return "".join(letter if letter.isprintable() else " " for letter in error[:ERROR_CHARS_MAX])


def _pieces(posts: list[tuple[str, Post]]) -> list[list[tuple[str, Post]]]:
    """A page in pieces that one transaction takes; an empty page is one empty piece, because it moves the cursor."""
    return [posts[start : start + POSTS_AT_ONCE] for start in range(0, len(posts), POSTS_AT_ONCE)] or [[]]
