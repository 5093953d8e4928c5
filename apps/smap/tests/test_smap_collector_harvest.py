"""A crash at any point of the way from a page to its events loses nothing and doubles nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from collector_lives import Lives, blobs_of, pages_of, planned, unpublished
from smap_mortal import Fate, Killed, fates, unharmed

from headrace_smap.collector.blob_names import blob_path
from headrace_smap.collector.harvester import Harvester, NobodyListens, TaskHolding
from headrace_smap.collector.tasks import CrawlTask, Page, Post
from headrace_smap.count.accountant import Accountant
from headrace_smap.database import Row, Step
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.settings import SmapSettings
from headrace_smap.values import Standing

# Two tasks that share a post, one with an empty page.
PAGES = {
    "tiktok any day a": pages_of([["a1"], [], ["both"]]),
    "tiktok any day b": pages_of([["both", "b/1", "b/1"]]),
}
POSTS = ("a1", "both", "b/1")
POINTS_MIN = 60


@pytest.fixture
async def parts(embedded: SmapSettings) -> AsyncIterator[SmapParts]:
    async with open_parts(embedded) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, embedded: SmapSettings) -> SmapSettings:
    """A world with its rows in a file or in PostgreSQL; the other parts make no difference here."""
    if request.param == "sqlite":
        return embedded
    return replace(embedded, pg_dsn=request.getfixturevalue("smap_database"))


@pytest.fixture
async def any_parts(either: SmapSettings) -> AsyncIterator[SmapParts]:
    async with open_parts(either) as opened:
        yield opened


def now() -> datetime:
    return datetime(2025, 1, 1, tzinfo=UTC)


async def die_everywhere(parts: SmapParts, kind: type[Harvester]) -> int:
    """One project for each point: a first life that ends there, and a second one that does the rest."""
    lives = Lives(parts, kind)
    for point, fate in enumerate(fates()):
        project, died = f"project-{kind.__name__}-{point}", False
        tasks = await planned(parts, project, ["a", "b"])
        try:
            await lives.life(tasks, PAGES, fate)
        except Killed:
            died = True
            await lives.life(tasks, PAGES, unharmed())
        await lives.check(project, {blob_path("tiktok", project, name) for name in POSTS})
        if not died:
            return point
    return 0


async def test_a_crash_at_any_point_loses_and_doubles_nothing(parts: SmapParts) -> None:
    assert await die_everywhere(parts, Harvester) > POINTS_MIN


class MarksFirst(Harvester):
    """Says that posts were told of before they were."""

    async def _tell(self, project: str, rows: Iterable[Sequence[str]], traceparent: str) -> None:
        told = list(rows)
        await self._parts.database.rows("crawl_published", project=project, items=[row[0] for row in told])
        await super()._tell(project, told, traceparent)


class NamesFirst(Harvester):
    """Writes a post's blob when its row is there already."""

    async def _upload(self, path: str, body: bytes) -> None:
        self.late.append((path, body))

    async def _store(self, holding: TaskHolding, piece: Sequence[tuple[str, Post]]) -> TaskHolding | None:
        self.late: list[tuple[str, bytes]] = []
        stored = await super()._store(holding, piece)
        for path, body in self.late:
            await super()._upload(path, body)
        return stored


class ForgetsLeftovers(Harvester):
    """Tells only of the page that it has just stored."""

    async def store(self, holding: TaskHolding, page: Page) -> TaskHolding | None:
        self.storing = True
        return await super().store(holding, page)

    async def publish(self, project: str, task: str | None) -> None:
        if getattr(self, "storing", False):
            self.storing = False
            await super().publish(project, task)


class MovesOnFirst(Harvester):
    """Stores the cursor before the posts."""

    async def _store(self, holding: TaskHolding, piece: Sequence[tuple[str, Post]]) -> TaskHolding | None:
        await super()._store(holding, [])
        return await super()._store(holding, piece)


@pytest.mark.parametrize("twin", [MarksFirst, NamesFirst, ForgetsLeftovers, MovesOnFirst])
async def test_a_broken_order_is_noticed(parts: SmapParts, twin: type[Harvester]) -> None:
    with pytest.raises(AssertionError):
        await die_everywhere(parts, twin)


async def harvesting(parts: SmapParts) -> Harvester:
    return Harvester(parts, Accountant(parts), now)


async def begun(harvester: Harvester, task: CrawlTask, fence: int) -> TaskHolding:
    holding = await harvester.begin(task, fence)
    assert holding is not None
    return holding


async def found(parts: SmapParts, project: str) -> int:
    return int((await parts.database.rows("crawl_found", project=project))[0][0])


async def late_holder(parts: SmapParts, kind: type[Harvester]) -> None:
    (task,) = await planned(parts, "late", ["a"])
    harvester = kind(parts, Accountant(parts), now)
    late = await begun(harvester, task, 1)
    holder = await begun(harvester, task, 2)
    assert await harvester.store(late, pages_of([["x"], ["y"]])[0]) is None
    assert await harvester.begin(task, 1) is None
    await harvester.end(late, "done")
    assert await found(parts, "late") == 0
    assert await harvester.store(holder, pages_of([["x"]])[0]) is not None
    assert await found(parts, "late") == 1


async def test_a_holder_that_lost_its_claim_is_refused(any_parts: SmapParts) -> None:
    await late_holder(any_parts, Harvester)


class Unfenced(Harvester):
    """Does not tell one claim from the next."""

    async def begin(self, task: CrawlTask, fence: int) -> TaskHolding | None:
        return await super().begin(task, 1)


async def test_a_holder_that_nobody_refuses_is_noticed(parts: SmapParts) -> None:
    with pytest.raises(AssertionError):
        await late_holder(parts, Unfenced)


async def test_the_cap_is_exact_however_many_find_posts_at_once(either: SmapSettings) -> None:
    async with open_parts(replace(either, posts_max=40)) as parts:
        await capped(parts, 40)


async def capped(parts: SmapParts, posts_max: int) -> None:
    tasks = await planned(parts, "capped", [f"k{number}" for number in range(8)])
    harvester = await harvesting(parts)
    holdings = await asyncio.gather(*(begun(harvester, task, 1) for task in tasks))
    pages = [pages_of([[f"{task.keyword}-{number}" for number in range(10)]])[0] for task in tasks]
    await asyncio.gather(*(harvester.store(holding, page) for holding, page in zip(holdings, pages, strict=True)))
    await harvester.seal("capped")
    expected = min(posts_max, 80)
    assert await found(parts, "capped") == expected
    assert len([path async for path in blobs_of(parts, "capped")]) == expected
    assert (await standing_of(parts, "capped")).total == expected


async def standing_of(parts: SmapParts, project: str) -> Any:
    standing = await parts.ledger.tally(project)
    assert standing is not None
    return standing


class Uncapped:
    """A database that does not look at the cap once more under the project's lock."""

    def __init__(self, database: Any) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def transact(self, *steps: Step) -> list[list[Row]]:
        free = [(name, {**values, "posts_max": 10**9} if name == "crawl_add" else values) for name, values in steps]
        answer: list[list[Row]] = await self._database.transact(*free)
        return answer


async def test_a_cap_that_is_only_looked_at_before_is_noticed(embedded: SmapSettings) -> None:
    async with open_parts(replace(embedded, posts_max=40)) as parts:
        broken = replace(parts, database=Uncapped(parts.database))
        with pytest.raises(AssertionError):
            await capped(broken, 40)


@pytest.mark.parametrize("closing", ["seal", "cancel"])
async def test_nothing_is_added_to_a_project_that_wants_no_more(any_parts: SmapParts, closing: str) -> None:
    (task,) = await planned(any_parts, "closed", ["a"])
    harvester, accountant = await harvesting(any_parts), Accountant(any_parts)
    holding = await begun(harvester, task, 1)
    first, second = pages_of([["x"], ["y"]])
    stored = await harvester.store(holding, first)
    assert stored is not None
    await getattr(accountant, closing)("closed")
    late = await harvester.store(stored, second)
    assert late is not None
    assert not late.open
    await harvester.seal("closed")
    assert await found(any_parts, "closed") == 1
    assert [path async for path in blobs_of(any_parts, "closed")] == ["raw/tiktok/closed/x.json"]
    assert (await standing_of(any_parts, "closed")).total == 1
    report = await any_parts.database.rows("crawl_report", project="closed", after=-1, room=10)
    assert report[0][6] == ("cancelled" if closing == "cancel" else "failed")


async def test_posts_that_nobody_listens_for_are_told_of_later(parts: SmapParts) -> None:
    (task,) = await planned(parts, "early", ["a"])
    await parts.engine.bus.unsubscribe("smap.analytics")
    harvester = await harvesting(parts)
    holding = await begun(harvester, task, 1)
    with pytest.raises(NobodyListens):
        await harvester.store(holding, pages_of([["x"]])[0])
    assert len(await unpublished(parts.database, "early")) == 1
    await planned(parts, "early", ["a"])
    await harvester.seal("early")
    assert await unpublished(parts.database, "early") == []


async def test_blobs_that_a_lost_holder_left_behind_are_swept_away(any_parts: SmapParts) -> None:
    (task,) = await planned(any_parts, "swept", ["a"])
    lives = Lives(any_parts)
    with pytest.raises(Killed):
        # It dies when the blobs of its page are there and nothing else; then the source has another page.
        await lives.life([task], {task.name: pages_of([["gone"]])}, Fate(5, after=False))
    assert [path async for path in blobs_of(any_parts, "swept")] == ["raw/tiktok/swept/gone.json"]
    await lives.life([task], {task.name: pages_of([["stays"]])}, unharmed())
    await lives.check("swept", {"raw/tiktok/swept/stays.json"})


@pytest.mark.parametrize("cursor", ["x" * 10_001, "nul\x00"])
async def test_a_cursor_that_cannot_be_kept_is_refused(parts: SmapParts, cursor: str) -> None:
    (task,) = await planned(parts, "odd", ["a"])
    harvester = await harvesting(parts)
    with pytest.raises(ValueError, match="CURSOR_CHARS_MAX"):
        await harvester.store(await begun(harvester, task, 1), Page([], cursor))


async def test_an_error_is_kept_whatever_a_server_has_sent(any_parts: SmapParts) -> None:
    (task,) = await planned(any_parts, "odd", ["a"])
    harvester = await harvesting(any_parts)
    await harvester.end(await begun(harvester, task, 1), "failed", "\x00\ud800 boom " + "x" * 1_000)
    ((error,),) = [row[9:] for row in await any_parts.database.rows("crawl_report", project="odd", after=-1, room=9)]
    assert error.strip().startswith("boom")
    assert len(error) == 500


class LatePage(Accountant):
    """In the moment before the seal a holder that was believed dead comes with a page."""

    page: Callable[[], Awaitable[object]]

    async def seal(self, project: str, total: int | None = None) -> Standing | None:
        await self.page()
        return await super().seal(project, total)


class NeverCloses(Harvester):
    """Fixes the total without telling those who might still add to it."""

    async def seal(self, project: str) -> None:
        await self.publish(project, None)
        await self._accountant.seal(project, (await self._parts.database.rows("crawl_found", project=project))[0][0])


async def late_page(parts: SmapParts, kind: type[Harvester]) -> None:
    (task,) = await planned(parts, "sealing", ["a"])
    accountant = LatePage(parts)
    harvester = kind(parts, accountant, now)
    first, second = pages_of([["x"], ["y"]])
    stored = await harvester.store(await begun(harvester, task, 1), first)
    assert stored is not None
    accountant.page = lambda: harvester.store(stored, second)
    await harvester.seal("sealing")
    assert (await standing_of(parts, "sealing")).total == await found(parts, "sealing") == 1


async def test_a_page_that_comes_while_the_project_is_sealed_is_refused(any_parts: SmapParts) -> None:
    await late_page(any_parts, Harvester)


async def test_a_seal_that_lets_pages_in_is_noticed(parts: SmapParts) -> None:
    with pytest.raises(AssertionError):
        await late_page(parts, NeverCloses)
