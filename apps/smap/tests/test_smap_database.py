"""The database keeps its promises in both dialects: all or nothing, values as they were, many at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from waiting import turn

from headrace.errors import CallerError, HeadraceError
from headrace.testing.rig.postgres import PostgresServer
from headrace_smap.count.truth import look
from headrace_smap.database import STATEMENTS, Database, open_database
from headrace_smap.settings import SmapSettings

NOW = datetime(2025, 11, 29, 10, 0, 0, 123456, tzinfo=UTC)
TIMES = ("now", "until", "hold_s", "delay_s")
_VALUES = re.compile(r"'[^']*'|--[^\n]*|::|:([a-z_]+)")


@pytest.fixture(scope="module")
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """One database for all tests here: making it and its tables takes longer than any of them."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> SmapSettings:
    dsn = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    return SmapSettings(home=tmp_path, pg_dsn=dsn)


@pytest.fixture
async def database(settings: SmapSettings) -> AsyncIterator[Database]:
    async with open_database(settings.engine_url) as database:
        if settings.pg_dsn:
            with psycopg.connect(settings.pg_dsn, autocommit=True) as cleaning:
                cleaning.execute("TRUNCATE smap_item, smap_project, projects")
        yield database


def row(project: str, item: str, ok: bool = True, **more: object) -> dict[str, object]:
    return {"project": project, "item": item, "ok": ok, "reason": None, "body": None, **more}


async def counts(database: Database, project: str) -> tuple[int, int]:
    (truth,) = await look(database, [project])
    return truth.settled, truth.failed


async def test_several_make_the_tables_at_once(settings: SmapSettings) -> None:
    async with AsyncExitStack() as stack:
        opened = [stack.enter_async_context(open_database(settings.engine_url)) for _ in range(4)]
        databases = await asyncio.gather(*opened)
        assert await databases[0].rows("truth_watch", since=NOW) == []


async def test_values_come_back_as_they_were(database: Database) -> None:
    await database.rows("truth_open", project="dự án “một” %s :x", now=NOW)
    later = NOW + timedelta(microseconds=1)
    await database.rows("truth_seal", project="dự án “một” %s :x", total=2**40, shown=0, now=later)
    (truth,) = await look(database, ["dự án “một” %s :x"])
    assert (truth.total, truth.moved_at, truth.sealed_at, truth.finished_at) == (2**40, NOW, later, None)
    assert truth.there is False


async def test_bytes_and_documents_come_back_as_they_were(database: Database) -> None:
    body = bytes(range(256))
    rows = [row("p", "x 'y' \\ \"z\" {a,b}", ok=False, reason="không đọc được: {}", body=body.hex())]
    await database.rows("truth_settle", rows=rows, now=NOW)
    assert await database.rows("truth_failed", project="p", after="", room=9) == [
        ("x 'y' \\ \"z\" {a,b}", "không đọc được: {}", body)
    ]


async def test_a_transaction_is_all_or_nothing(database: Database) -> None:
    with pytest.raises(CallerError):
        await database.transact(
            ("truth_settle", {"rows": [row("p", "a")], "now": NOW}),
            ("truth_settle", {"rows": [row("p", None)], "now": NOW}),  # type: ignore[arg-type]
        )
    assert await counts(database, "p") == (0, 0)
    assert await database.transact(("truth_settle", {"rows": [row("p", "a")], "now": NOW})) == [[]]
    assert await counts(database, "p") == (1, 0)


async def test_one_that_fails_does_not_disturb_those_beside_it(database: Database) -> None:
    async def settle(number: int) -> bool:
        item: Any = None if number % 5 == 0 else f"item {number}"
        try:
            await database.rows("truth_settle", rows=[row("p", item)], now=NOW)
        except HeadraceError:
            return False
        return True

    went_well = await asyncio.gather(*(settle(number) for number in range(50)))
    assert went_well.count(False) == 10
    assert await counts(database, "p") == (40, 0)


async def test_an_item_counts_once_and_only_ever_gets_better(database: Database) -> None:
    async def settle(*rows: dict[str, object]) -> tuple[int, int]:
        await database.rows("truth_settle", rows=list(rows), now=NOW)
        return await counts(database, "p")

    assert await settle(row("p", "a"), row("p", "b", ok=False)) == (2, 1)
    assert await settle(row("p", "a", ok=False), row("p", "b", ok=False)) == (2, 1)
    assert await settle(row("p", "b"), row("p", "c", ok=False), row("q", "a")) == (3, 1)
    assert await settle(row("p", "b", ok=False), row("p", "c")) == (3, 0)
    assert await counts(database, "q") == (1, 0)
    assert await database.rows("truth_items", project="p", after="a", room=9) == [("b", True), ("c", True)]
    assert await database.rows("truth_failed", project="p", after="", room=9) == []


async def test_many_settle_the_same_items_in_any_order_and_each_counts_once(
    database: Database, settings: SmapSettings
) -> None:
    """Batches overlap, of two projects and of two services: no deadlock is seen, and nothing counts twice."""
    async with open_database(settings.engine_url) as other:
        await settle_overlapping([database, other])


async def settle_overlapping(databases: Sequence[Database]) -> None:

    async def settle(number: int) -> None:
        names = [f"item {(number * 7 + step * 3) % 40:02}" for step in range(12)]
        rows = [row(project, name, ok=step % 4 > 0) for step, name in enumerate(names) for project in ("q", "p")]
        await databases[number % 2].rows("truth_settle", rows=rows, now=NOW)

    await asyncio.gather(*(settle(number) for number in range(40)))
    for project in ("p", "q"):
        items = await databases[0].rows("truth_items", project=project, after="", room=100)
        assert await counts(databases[1], project) == (len(items), sum(not ok for _, ok in items))
        assert len(items) == 40


async def test_a_caller_that_leaves_does_not_break_the_line(database: Database) -> None:
    for number in range(30):
        task = asyncio.ensure_future(database.rows("truth_settle", rows=[row("p", f"{number}")], now=NOW))
        for _ in range(number % 4):
            await turn()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await database.rows("truth_settle", rows=[row("p", f"{number}") for number in range(30)], now=NOW)
    assert await counts(database, "p") == (30, 0)


async def test_what_the_ledger_shows_is_only_taken_where_it_is_ahead(database: Database) -> None:
    async def mirror(
        status: str, place: int, total: int, read: tuple[int, int] | None = None
    ) -> tuple[str | None, int]:
        seen = {"project": "p", "status": status, "rank": place, "total": total, "done": 0, "errors": 0, "others": 0}
        more = {"others_failed": 0, "era": "1", "from_rank": read[0], "from_total": read[1]} if read else {}
        await database.rows("truth_mirror", rows=[{"others_failed": 0, **seen, **more}], now=NOW)
        (truth,) = await look(database, ["p"])
        return truth.status, truth.total

    await database.rows("truth_open", project="p", now=NOW)
    assert await mirror("CRAWLING", 1, 10) == ("CRAWLING", 10)
    assert await mirror("CRAWLING", 1, 8) == ("CRAWLING", 10)
    assert await mirror("INITIALIZING", 0, 99) == ("CRAWLING", 10)
    assert await mirror("CRAWLING", 1, 8, read=(1, 9)) == ("CRAWLING", 10), "somebody has kept something newer"
    assert await mirror("CRAWLING", 1, 8, read=(1, 10)) == ("CRAWLING", 8)
    assert await mirror("PROCESSING_WAIT", 2, 7) == ("PROCESSING_WAIT", 7)
    await database.rows("truth_seal", project="p", total=9, shown=0, now=NOW)
    assert await mirror("CRAWLING", 1, 50, read=(2, 9)) == ("PROCESSING_WAIT", 9)
    assert await mirror("PROCESSING", 3, 50, read=(2, 9)) == ("PROCESSING", 9)


@pytest.mark.parametrize("name", sorted({*STATEMENTS.named("sqlite"), *STATEMENTS.named("postgres")}))
def test_a_statement_means_the_same_in_both_dialects(name: str) -> None:
    """At least it exists in both and takes the same values, but for times: PostgreSQL has a clock of its own."""
    texts = [STATEMENTS.named(dialect)[name].text for dialect in ("sqlite", "postgres")]
    values = [set(_VALUES.findall(text)) - {"", *TIMES} for text in texts]
    assert values[0] == values[1]
