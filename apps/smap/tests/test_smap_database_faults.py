"""PostgreSQL may go away, hang or swallow an answer: what was asked for is done once, or said not to be."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from waiting import eventually

from headrace.errors import OperatorError, Unreachable
from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.rig.proxy import Proxy
from headrace_smap.count.truth import look
from headrace_smap.database import Database, open_database

NOW = datetime(2025, 11, 29, 10, 0, tzinfo=UTC)


@pytest.fixture
async def database(postgres_database: str) -> AsyncIterator[Database]:
    async with open_database(postgres_database) as database:
        yield database


def settling(*items: str) -> tuple[str, dict[str, object]]:
    rows = [{"project": "p", "item": item, "ok": True, "reason": None, "body": None} for item in items]
    return "truth_settle", {"rows": rows, "now": NOW}


async def settled(database: Database) -> int:
    return (await look(database, ["p"]))[0].settled


@pytest.mark.parametrize("cut", [b"COMMIT", b"smap_item"])
async def test_a_transaction_whose_answer_was_lost_counts_once(
    database: Database, postgres_database: str, fault_proxy: Callable[[str], Proxy], cut: bytes
) -> None:
    proxy = fault_proxy(postgres_database)
    async with open_database(proxy.url) as broken:
        await broken.rows("truth_watch", since=NOW)
        proxy.cut_reply_to(cut)
        await broken.transact(("truth_know", {"projects": ("p",), "now": NOW}), settling("a", "b"))
        proxy.wait_for_cut()
        assert await settled(database) == 2


async def test_connections_that_were_ended_are_replaced(database: Database, postgres_database: str) -> None:
    await asyncio.gather(*(database.transact(settling(f"{number}")) for number in range(20)))
    with psycopg.connect(postgres_database, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    await asyncio.gather(*(database.transact(settling(f"{number}")) for number in range(10, 30)))
    assert await settled(database) == 30


async def test_a_server_that_is_away_is_unreachable_and_then_there_again(
    database: Database, postgres_server: PostgresServer
) -> None:
    await database.transact(settling("a"))
    postgres_server.kill()
    with pytest.raises(Unreachable):
        await database.transact(settling("b"))
    postgres_server.start()
    await database.transact(settling("b"))
    assert await settled(database) == 2


async def test_two_that_lock_each_other_out_both_come_through(database: Database, postgres_database: str) -> None:
    """Somebody else takes two rows in the other order; PostgreSQL ends one of the two, and ours is sent again."""
    await database.transact(("truth_know", {"projects": ("p", "q"), "now": NOW}))
    async with await psycopg.AsyncConnection.connect(postgres_database) as other:
        await other.execute("SET deadlock_timeout = '10s'")
        await other.execute("UPDATE smap_project SET found = 1 WHERE project_id = 'q'")
        crawl = [("truth_crawl", {"project": project, "now": NOW}) for project in ("p", "q")]
        ours = asyncio.ensure_future(database.transact(*crawl))

        async def waits() -> bool:
            rows = await other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            return await rows.fetchone() != (0,)

        await eventually(waits, "ours waits for the row of the other")
        await other.execute("UPDATE smap_project SET found = 1 WHERE project_id = 'p'")
    await asyncio.wait_for(ours, 60)
    truths = await look(database, ["p", "q"])
    assert all(truth.crawled_at is not None for truth in truths)


async def test_tables_are_made_where_the_search_path_leads(postgres_database: str) -> None:
    with psycopg.connect(postgres_database, autocommit=True) as owner:
        owner.execute("CREATE SCHEMA elsewhere")
    url = f"{postgres_database}{'&' if '?' in postgres_database else '?'}options=-csearch_path%3Delsewhere"
    async with open_database(url) as database:
        await database.transact(settling("a"))
    with psycopg.connect(postgres_database) as owner:
        assert owner.execute("SELECT count(*) FROM elsewhere.smap_item").fetchone() == (1,)


async def test_nobody_listening_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        async with open_database("postgresql://127.0.0.1:1/nothing"):
            pass


async def test_a_directory_that_cannot_be_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(OperatorError):
        async with open_database(f"sqlite:///{tmp_path}/missing/smap.db"):
            pass


def settle_until_killed(path: Path) -> None:
    """Three processes at a time, killed when each of them has settled a good deal."""
    line = [sys.executable, str(Path(__file__).with_name("smap_settling_child.py")), str(path)]
    running = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    try:
        for process in running:
            assert process.stdout is not None
            for _ in range(30):
                assert process.stdout.readline(), "the process has ended by itself"
    finally:
        for process in running:
            process.kill()
            process.communicate()


async def test_processes_that_share_a_file_and_are_killed_count_each_item_once(tmp_path: Path) -> None:
    path = tmp_path / "smap.db"
    for _ in range(2):
        await asyncio.to_thread(settle_until_killed, path)
    async with open_database(f"sqlite:///{path}") as database:
        items = await database.rows("truth_items", project="p", after="", room=1_000)
        (truth,) = await look(database, ["p"])
    assert (truth.settled, truth.failed) == (len(items), sum(not ok for _, ok in items))
    assert len(items) > 200
