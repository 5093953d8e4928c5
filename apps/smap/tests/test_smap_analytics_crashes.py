"""The process is lost at every step of a batch; whoever gets the messages next comes to the same end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from smap_analytics_desk import Cut, Desk, Killed, good, open_desk, topics
from smap_posts import post

from headrace_smap.analytics import results
from headrace_smap.analytics.handler import Handler
from headrace_smap.analytics.posts import HandledPost
from headrace_smap.count.accountant import Accountant
from headrace_smap.envelope import ANALYSIS_FINISHED, JOB_COMPLETED
from headrace_smap.settings import SmapSettings

LETTERS, RESULTS, FINISH = 1, 3, 2
"""The first thing that is published are the letters; the line is crossed inside the settlement, then results follow."""
CRASHES = {
    "in the middle of reading blobs": ("blobs", "get", 2),
    "at the dead letters": ("bus", "publish", LETTERS),
    "at the database": ("database", "transact", 1),
    "at the ledger": ("ledger", "settle", 1),
    "at the end of the project": ("bus", "publish", FINISH),
    "at the results": ("bus", "publish", RESULTS),
}


@pytest.fixture
async def desk(embedded: SmapSettings) -> AsyncIterator[Desk]:
    async with open_desk(embedded) as opened:
        await opened.store(**good(3), bad=b"{")
        await opened.seal()
        yield opened


async def crash(desk: Desk, where: str, after: bool, kind: type[Handler] = Handler) -> None:
    """Handle the batch in a process that is lost, then in one that is not; then look at everything."""
    part, call, at = CRASHES[where]
    cut = Cut(getattr(desk.parts, part), call, after, at)
    with pytest.raises(Killed):
        exchanged: dict[str, Any] = {part: cut}
        await desk.handler(kind=kind, **exchanged).handle(desk.deliveries())
    await desk.handler(kind=kind).handle(desk.deliveries(deliveries=2))
    # What the reconciler does within a second or two.
    await Accountant(desk.parts).cross("proj_abc")
    await check(desk)


async def check(desk: Desk) -> None:
    assert await desk.progress() == ("DONE", 4, 4, 1)
    assert await desk.rules() == {"raw/bad.json": "blob_truncated"}
    assert len(await desk.results()) == 3
    assert topics(await desk.told()) == {ANALYSIS_FINISHED: 3, JOB_COMPLETED: 1}
    assert len({letter.event_id for letter in await desk.letters()}) == 1
    assert await desk.parts.database.rows("count_attempts", rows=_names(desk), charge="") == []


def _names(desk: Desk) -> list[dict[str, str]]:
    return [{"project_id": "proj_abc", "item": path} for path in desk.paths]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("where", CRASHES)
async def test_a_crash_at_any_step_loses_and_doubles_nothing(desk: Desk, where: str, after: bool) -> None:
    await crash(desk, where, after)


async def test_a_crash_before_the_acknowledgement_repeats_everything_without_harm(desk: Desk) -> None:
    await desk.handler().handle(desk.deliveries())
    await desk.handler().handle(desk.deliveries(deliveries=2))
    await check(desk)


class AcknowledgesEarly(Handler):
    """The specification's order: what is in the ledger is done, and the letter comes after it."""

    async def _conclude(self, posts: Sequence[HandledPost]) -> None:
        means = self._means
        known = {item for item, _ in await means.accountant._database.rows("truth_items", **_all())}
        fresh = [post for post in posts if post.item not in known]
        await means.accountant.settle(results.ends(fresh), results.rows(fresh))
        await means.letters.send([post for post in fresh if post.fault])
        await means.bus.publish(results.events(fresh, datetime.now(UTC)))


def _all() -> dict[str, object]:
    return {"project": "proj_abc", "after": "", "room": 100}


async def test_the_twin_that_counts_before_it_writes_letters_loses_them(desk: Desk) -> None:
    with pytest.raises(AssertionError):
        await crash(desk, "at the ledger", True, AcknowledgesEarly)


class Forgetful(Handler):
    """Tells nobody about posts that came back."""

    async def _conclude(self, posts: Sequence[HandledPost]) -> None:
        means = self._means
        await means.letters.send([post for post in posts if post.fault])
        await means.accountant.settle(results.ends(posts), results.rows(posts))
        first = [post for post in posts if not post.suspect]
        await means.bus.publish(results.events(first, datetime.now(UTC)))


async def test_the_twin_that_tells_only_the_first_time_loses_results(desk: Desk) -> None:
    with pytest.raises(AssertionError):
        await crash(desk, "at the ledger", True, Forgetful)


async def test_the_same_message_in_two_hands_at_once_counts_once(desk: Desk) -> None:
    """A consumer that was thought lost goes on while another has its messages."""
    handlers = [desk.handler() for _ in range(3)]
    await asyncio.gather(*(handler.handle(desk.deliveries()) for handler in handlers))
    await check(desk)


async def test_a_large_post_is_not_lost_in_a_crash_either(embedded: SmapSettings) -> None:
    async with open_desk(embedded) as desk:
        await desk.store(large=b" " * 300_000 + post())
        await desk.seal()
        with pytest.raises(Killed):
            await desk.handler(blobs=Cut(desk.parts.blobs, "get", True, 2)).handle(desk.deliveries())
        await desk.handler().handle(desk.deliveries(deliveries=2))
        assert await desk.progress() == ("DONE", 1, 1, 0)
