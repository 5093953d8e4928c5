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

from headrace.errors import CallerError, OperatorError, Unreachable
from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.rig.proxy import Proxy
from headrace_smap.database_postgres import PostgresDatabase
from headrace_smap.database_sqlite import SqliteDatabase
from headrace_smap.truth import look

NOW = datetime(2025, 11, 29, 10, 0, tzinfo=UTC)


@pytest.fixture
async def database(postgres_database: str) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(postgres_database)
    await database.create()
    yield database
    await database.close()


def settling(*items: str) -> tuple[str, dict[str, object]]:
    rows = [{"project": "p", "item": item, "ok": True, "reason": None, "body": None} for item in items]
    return "truth_settle", {"rows": rows, "now": NOW}


async def settled(database: PostgresDatabase) -> int:
    return (await look(database, ["p"]))[0].settled


@pytest.mark.parametrize("cut", [b"COMMIT", b"smap_item"])
async def test_a_transaction_whose_answer_was_lost_counts_once(
    database: PostgresDatabase, postgres_database: str, fault_proxy: Callable[[str], Proxy], cut: bytes
) -> None:
    proxy = fault_proxy(postgres_database)
    broken = PostgresDatabase(proxy.url)
    await broken.rows("truth_watch", since=NOW)
    proxy.cut_reply_to(cut)
    await broken.transact(("truth_know", {"projects": ("p",), "now": NOW}), settling("a", "b"))
    proxy.wait_for_cut()
    assert await settled(database) == 2
    await broken.close()


async def test_connections_that_were_ended_are_replaced(database: PostgresDatabase, postgres_database: str) -> None:
    await asyncio.gather(*(database.transact(settling(f"{number}")) for number in range(20)))
    with psycopg.connect(postgres_database, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    await asyncio.gather(*(database.transact(settling(f"{number}")) for number in range(10, 30)))
    assert await settled(database) == 30


async def test_a_server_that_is_away_is_unreachable_and_then_there_again(
    database: PostgresDatabase, postgres_server: PostgresServer
) -> None:
    await database.transact(settling("a"))
    postgres_server.kill()
    with pytest.raises(Unreachable):
        await database.transact(settling("b"))
    postgres_server.start()
    await database.transact(settling("b"))
    assert await settled(database) == 2


async def test_a_line_that_swallows_everything_is_given_up(
    database: PostgresDatabase, postgres_database: str, fault_proxy: Callable[[str], Proxy]
) -> None:
    proxy = fault_proxy(postgres_database)
    patient = PostgresDatabase(proxy.url, answer_s_max=0.3)
    await patient.transact(settling("a"))
    proxy.black_hole("replies")
    with pytest.raises(Unreachable):
        await asyncio.wait_for(patient.transact(settling("b")), 10)
    proxy.heal()
    await patient.transact(settling("b"))
    assert await settled(database) == 2
    await patient.close()


async def test_two_that_lock_each_other_out_both_come_through(
    database: PostgresDatabase, postgres_database: str
) -> None:
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
    await asyncio.wait_for(ours, 10)
    truths = await look(database, ["p", "q"])
    assert all(truth.crawled_at is not None for truth in truths)


async def test_tables_are_made_where_the_search_path_leads(postgres_database: str) -> None:
    with psycopg.connect(postgres_database, autocommit=True) as owner:
        owner.execute("CREATE SCHEMA elsewhere")
    database = PostgresDatabase(psycopg.conninfo.make_conninfo(postgres_database, options="-c search_path=elsewhere"))
    await database.create()
    await database.transact(settling("a"))
    await database.close()
    with psycopg.connect(postgres_database) as owner:
        assert owner.execute("SELECT count(*) FROM elsewhere.smap_item").fetchone() == (1,)


def test_a_dsn_that_is_none_is_refused_without_showing_it() -> None:
    with pytest.raises(CallerError) as refused:
        PostgresDatabase("postgresql://user:secret@host:notaport:x/db?nonsense=1")
    assert "secret" not in str(refused.value)


async def test_nobody_listening_is_unreachable() -> None:
    database = PostgresDatabase("postgresql://127.0.0.1:1/nothing")
    with pytest.raises(Unreachable):
        await database.create()


async def test_a_directory_that_cannot_be_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(OperatorError):
        await SqliteDatabase.open(str(tmp_path / "missing" / "smap.db"))


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
    database = await SqliteDatabase.open(str(path))
    items = await database.rows("truth_items", project="p", after="", room=1_000)
    (truth,) = await look(database, ["p"])
    assert (truth.settled, truth.failed) == (len(items), sum(not ok for _, ok in items))
    assert len(items) > 200
    await database.close()
