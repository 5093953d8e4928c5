"""The account on real parts: Redis and PostgreSQL, and the store with SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from prometheus_client import CollectorRegistry
from smap_accounts import Clock, MemoryBus

import headrace
from headrace.errors import CallerError, NotFound
from headrace.testing.rig.postgres import PostgresServer
from headrace_smap.count.accountant import BODY_BYTES_MAX, Accountant, ItemEnd
from headrace_smap.count.reconciliation.reconciler import Reconciler
from headrace_smap.count.truth import look
from headrace_smap.database import open_database
from headrace_smap.envelope import completed_id, read
from headrace_smap.ledger.redis_ledger import open_redis_ledger
from headrace_smap.ledger.store_ledger import StoreLedger
from headrace_smap.parts import SmapParts
from headrace_smap.settings import SmapSettings
from headrace_smap.values import CRAWLING, DONE, PROCESSING_WAIT

P = "proj_abc"


class Account:
    """An accountant with everything around it at hand."""

    def __init__(self, parts: SmapParts, bus: MemoryBus) -> None:
        self.parts, self.bus, self.clock = parts, bus, Clock()
        self.accountant = Accountant(parts, self.clock)
        self.reconciler = Reconciler(parts, self.accountant, self.clock)

    async def look_after(self, looks: int = 1, every_s: float = 1.0) -> None:
        for _ in range(looks):
            self.clock.forward(every_s)
            await self.reconciler.tick()

    async def shown(self, project: str = P) -> tuple[str, int, int, int]:
        seen = await self.parts.ledger.tally(project)
        assert seen is not None
        return seen.status, seen.total, seen.done, seen.errors

    async def settle(self, *items: str, ok: bool = True, project: str = P) -> None:
        await self.accountant.settle([ItemEnd(project, item, ok, "", None if ok else b"{}") for item in items])

    def told(self) -> list[str]:
        return [event.event_id for event in self.bus.published]


@pytest.fixture(scope="module")
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """One database for all tests here: making it and its tables takes longer than any of them."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture(params=["embedded", "servers"])
async def account(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Account]:
    servers = request.param == "servers"
    settings = SmapSettings(home=tmp_path, pg_dsn=request.getfixturevalue("postgres_url") if servers else "")
    bus, blobs = MemoryBus(), None
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(open_database(settings.engine_url))
        engine = await stack.enter_async_context(headrace.connect(f"sqlite:///{tmp_path / 'headrace.db'}"))
        if servers:
            with psycopg.connect(settings.pg_dsn, autocommit=True) as cleaning:
                cleaning.execute("TRUNCATE smap_item, smap_project, projects")
        ledger: Any = StoreLedger(engine)
        if servers:
            url = request.getfixturevalue("redis_database")
            ledger = await stack.enter_async_context(open_redis_ledger(url))
        opened: Any = (engine, bus, ledger, blobs, database)
        yield Account(SmapParts(settings, *opened, CollectorRegistry()), bus)


async def test_a_project_from_its_first_post_to_its_end(account: Account) -> None:
    """Its whole life, and what can happen to it after its end."""
    accountant = account.accountant
    await accountant.open(P)
    assert await accountant.progress(P) == {
        "status": "INITIALIZING",
        "total": 0,
        "processed": 0,
        "errors": 0,
        "percent": 0.0,
    }
    await accountant.expect(P, 2)
    await account.settle("a", "b")
    assert await account.shown() == (CRAWLING, 3, 2, 0)
    await account.settle("c", ok=False)
    await account.settle("a", "b", "c")
    assert await account.shown() == (CRAWLING, 3, 3, 0)
    await account.settle("d", "e", ok=False)
    await accountant.seal(P, 5)
    await account.look_after(3)
    assert await account.shown() == (DONE, 5, 5, 2)
    assert account.told() == [completed_id(P)]
    assert read(account.bus.published[0].body).payload == {"project_id": P, "total": 5, "done": 5, "errors": 2}

    await account.settle("d")
    await account.look_after(5)
    assert await account.shown() == (DONE, 5, 5, 1)
    assert account.told() == [completed_id(P)]

    await account.settle("surplus")
    await accountant.expect(P, 9)
    await accountant.seal(P, 9)
    await account.look_after(5)
    assert await account.shown() == (DONE, 5, 5, 1)
    (truth,) = await look(account.parts.database, [P])
    assert (truth.settled, truth.failed, truth.final_errors) == (6, 1, 2)

    await accountant.forget(P)
    await account.look_after(2)
    assert await accountant.progress(P) is None
    assert account.told() == [completed_id(P)]


async def test_an_empty_project_ends_with_its_seal(account: Account) -> None:
    await account.accountant.open(P)
    await account.accountant.seal(P, 0)
    assert await account.shown() == (DONE, 0, 0, 0)
    assert await account.accountant.progress(P) == {
        "status": DONE,
        "total": 0,
        "processed": 0,
        "errors": 0,
        "percent": 100.0,
    }
    assert account.told() == [completed_id(P)]


async def test_a_cancelled_project_ends_with_what_was_found_and_tells_nobody(account: Account) -> None:
    accountant = account.accountant
    assert not await accountant.cancel("nobody's")
    await accountant.open(P)
    await account.parts.database.rows("truth_know", projects=(P,), now=account.clock())
    await accountant.expect(P, 0)
    assert await accountant.cancelled([P]) == set()
    await account.settle("a")
    assert await accountant.cancel(P)
    account.clock.forward(2)
    assert await accountant.cancelled([P, "other"]) == {P}
    await account.look_after(4)
    assert (await account.shown())[0] == DONE
    assert not await accountant.cancel(P)
    assert account.told() == []


async def test_a_seal_of_nothing_is_refused(account: Account) -> None:
    with pytest.raises(NotFound):
        await account.accountant.seal("nobody's")
    await account.accountant.open(P)
    await account.accountant.expect(P, 0)
    await account.accountant.seal(P)
    assert await account.shown() == (DONE, 0, 0, 0)


async def test_posts_of_an_unknown_project_are_counted_when_it_appears(account: Account) -> None:
    await account.settle("a", "b")
    await account.settle("c", ok=False)
    assert await account.parts.ledger.tally(P) is None
    assert await account.accountant.progress(P) is None
    await account.accountant.open(P)
    await account.accountant.expect(P, 3)
    await account.look_after(6)
    assert await account.shown() == (CRAWLING, 4, 3, 1)
    await account.accountant.seal(P, 3)
    assert await account.shown() == (DONE, 3, 3, 1)
    assert account.told() == [completed_id(P)]


async def test_strange_paths_count_like_any_other(account: Account) -> None:
    """What no database takes as text, or no index, is an item all the same, the same one every time."""
    strange = ["nul\0byte", "lone \ud800 surrogate", "x" * 5_000, "x" * 5_000 + "y", "đường/dẫn 📁", ""]
    await account.accountant.open(P)
    await account.settle(*strange, *strange)
    await account.settle(*strange)
    await account.accountant.seal(P, len(strange))
    assert await account.shown() == (DONE, 6, 6, 0)


async def test_one_post_of_two_projects_counts_in_both(account: Account) -> None:
    for project in ("one", "two"):
        await account.accountant.open(project)
        await account.accountant.seal(project, 1)
    ends = [ItemEnd(project, "raw/same.json") for project in ("one", "two")]
    await account.accountant.settle(ends)
    assert [await account.shown("one"), await account.shown("two")] == [(DONE, 1, 1, 0)] * 2
    assert sorted(account.told()) == sorted([completed_id("one"), completed_id("two")])


async def test_what_goes_with_a_settlement_is_written_with_it_or_not_at_all(account: Account) -> None:
    step = ("truth_seal", {"project": P, "total": 1, "shown": 0, "now": account.clock()})
    await account.accountant.settle([ItemEnd(P, "a")], [step])
    (truth,) = await look(account.parts.database, [P])
    assert (truth.settled, truth.sealed_at is not None) == (1, True)
    with pytest.raises(CallerError):
        await account.accountant.settle([ItemEnd(P, "b")], [("truth_seal", {**step[1], "project": None})])
    (truth,) = await look(account.parts.database, [P])
    assert truth.settled == 1


async def test_a_seal_after_everything_is_done_crosses_the_line(account: Account) -> None:
    await account.accountant.open(P)
    await account.settle("a", "b")
    assert account.told() == []
    seen = await account.accountant.seal(P, 2)
    assert seen is not None
    assert seen.crossed
    assert account.told() == [completed_id(P)]


async def test_a_project_waits_for_its_posts_after_the_seal(account: Account) -> None:
    await account.accountant.open(P)
    await account.accountant.seal(P, 2)
    assert await account.shown() == (PROCESSING_WAIT, 2, 0, 0)
    await account.settle("a")
    await account.look_after(3)
    assert await account.shown() == ("PROCESSING", 2, 1, 0)
    await account.settle("b", ok=False)
    assert await account.shown() == (DONE, 2, 2, 1)


async def test_the_message_of_a_failed_post_is_kept_unless_it_is_swollen(account: Account) -> None:
    await account.accountant.open(P)
    bodies = {"small": b"{}", "swollen": b"x" * (BODY_BYTES_MAX + 1)}
    await account.accountant.settle([ItemEnd(P, item, ok=False, body=body) for item, body in bodies.items()])
    rows = await account.accountant._database.rows("truth_failed", project=P, after="", room=9)
    assert [(item, body and bytes(body)) for item, _, body in rows] == [("small", b"{}"), ("swollen", None)]


async def test_a_post_that_fails_again_tells_why_it_did_this_time(account: Account) -> None:
    await account.accountant.open(P)
    for reason, body in (("blob_missing: none", b"{}"), ("blob_json: broken", b"[]")):
        await account.accountant.settle([ItemEnd(P, "a", False, reason, body)])
    rows = await account.parts.database.rows("truth_failed", project=P, after="", room=2)
    assert [(item, reason, bytes(body)) for item, reason, body in rows] == [("a", "blob_json: broken", b"[]")]
    (truth,) = await look(account.parts.database, [P])
    assert (truth.settled, truth.failed) == (1, 1)
    await account.settle("a")
    await account.accountant.settle([ItemEnd(P, "a", False, "late", b"{}")])
    assert await account.parts.database.rows("truth_failed", project=P, after="", room=2) == []


@pytest.mark.parametrize("shown", [True, False])
async def test_a_retry_long_after_the_end_lowers_the_errors(account: Account, shown: bool) -> None:
    """Whether the ledger forgets by itself or not; what came after the end is still not counted."""
    await account.accountant.open(P)
    await account.settle("a", "b", ok=False)
    await account.accountant.seal(P, 2)
    await account.look_after(3)
    await account.settle("late")
    account.clock.forward(8 * 86_400)
    await account.look_after(3)
    if not shown:
        await account.parts.ledger.forget(P)
    await account.settle("a")
    await account.settle("c", project="nobody's")
    (truth,) = await look(account.parts.database, [P])
    assert (truth.status, truth.total, truth.done, truth.errors, truth.final_errors) == (DONE, 2, 2, 1, 2)
    assert await account.accountant.progress(P) == {
        "status": "DONE",
        "total": 2,
        "processed": 2,
        "errors": 1,
        "percent": 100.0,
    }
    assert account.told() == [completed_id(P)]


async def test_a_post_that_had_failed_before_its_project_was_cancelled_stays_failed(account: Account) -> None:
    """Its message comes again, and nobody analyses it."""
    await account.accountant.open(P)
    await account.settle("a", ok=False)
    await account.accountant.seal(P, 2)
    assert await account.accountant.cancel(P)
    await account.accountant.settle([ItemEnd(P, item, True, "cancelled") for item in ("a", "b")])
    await account.look_after(3)
    assert await account.shown() == (DONE, 2, 2, 1)
    (truth,) = await look(account.parts.database, [P])
    assert (truth.settled, truth.failed) == (2, 1)
