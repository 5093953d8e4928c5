"""A collector's world in which every call is a place to die at, and the account that must be right afterwards."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from smap_mortal import Fate, mortal

from headrace.ports import Event, Subscription
from headrace_smap.collector.blob_names import blob_prefix
from headrace_smap.collector.harvester import DONE, Harvester
from headrace_smap.collector.orders import Orders
from headrace_smap.collector.tasks import CrawlTask, Page, Post
from headrace_smap.collector.wishes import CrawlWishes
from headrace_smap.count.accountant import Accountant
from headrace_smap.envelope import Message
from headrace_smap.parts import SmapParts
from headrace_smap.values import SEALED

LISTENER = "smap.analytics"


class Recorded:
    """A bus that keeps what was published."""

    def __init__(self, bus: Any, told: list[Event]) -> None:
        self._bus, self._told = bus, told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def publish(self, events: Sequence[Event]) -> Any:
        answer = await self._bus.publish(events)
        self._told.extend(events)
        return answer


@dataclass(slots=True)
class Lives:
    """The lives of one collector in one world; `kind` is the harvester, or a broken twin of it."""

    parts: SmapParts
    kind: type[Harvester] = Harvester
    told: list[Event] = field(default_factory=list)
    fence: int = 0

    async def life(self, tasks: Sequence[CrawlTask], pages: dict[str, list[Page]], fate: Fate) -> None:
        """Crawl everything and seal, or die on the way."""
        self.fence += 1
        bus: Any = Recorded(self.parts.bus, self.told)
        dying = mortal(replace(self.parts, bus=bus), fate)
        harvester = self.kind(dying, Accountant(dying), lambda: datetime(2025, 1, 1, tzinfo=UTC))
        for task in tasks:
            holding = await harvester.begin(task, self.fence)
            if holding is None:
                continue
            await harvester.publish(task.project, task.name)
            for page in pages[task.name][int(holding.cursor or 0) :] if not holding.ended else ():
                stored = await harvester.store(holding, page)
                assert stored is not None
                holding = stored
            await harvester.end(holding, DONE)
        await harvester.seal(tasks[0].project)

    async def check(self, project: str, paths: set[str]) -> None:
        """Found = published = blobs = total, exactly, and repeats told the same."""
        database = self.parts.database
        assert await unpublished(database, project) == []
        assert {item for (item,) in await database.rows("crawl_known", project=project, items=sorted(paths))} == paths
        assert await database.rows("crawl_found", project=project) == [(len(paths), True, "")]
        assert {path async for path in blobs_of(self.parts, project)} == paths
        mine = [event for event in self.told if event.key == project]
        assert len({(event.event_id, event.body) for event in mine}) == len(paths)
        standing = await self.parts.ledger.tally(project)
        assert standing is not None
        assert (standing.status in SEALED, standing.total) == (True, len(paths))


async def unpublished(database: Any, project: str) -> list[Any]:
    return list(await database.rows("crawl_unpublished", project=project, task=None, room=1_000))


async def blobs_of(parts: SmapParts, project: str) -> AsyncIterator[str]:
    async for path in parts.blobs.list(blob_prefix("tiktok", project)):
        yield path


async def planned(parts: SmapParts, project: str, tasks: Sequence[str], **payload: Any) -> list[CrawlTask]:
    """Open a project with these keywords as its tasks, without a job that would crawl them."""
    await parts.bus.subscribe(Subscription(LISTENER, ("data.collected",)))
    accountant = Accountant(parts)
    await accountant.open(project)
    orders = Orders(parts, accountant, CrawlWishes(("tiktok",), simulated=True))
    rows = orders.plan(Message(project, {"keywords": list(tasks), **payload}))
    await parts.database.rows("crawl_plan", project=project, rows=rows, now=datetime.now(UTC))
    return [CrawlTask(project, f"tiktok any day {keyword}", "tiktok", keyword) for keyword in tasks]


def pages_of(names: Sequence[Sequence[str]]) -> list[Page]:
    """Pages with posts of these ids; the cursor is the number of the next page."""
    last = len(names) - 1
    return [
        Page([Post(name, name.encode()) for name in page], None if number == last else str(number + 1))
        for number, page in enumerate(names)
    ]
