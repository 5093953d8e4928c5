"""The bridge to the driver: values, pages, limits, errors by who must act, and what is left when it is closed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest
from lock_clients import resource, session_on
from waiting import turn

import headrace
from headrace.adapters.cassandra.options import CONSISTENCY, LOCK, CassandraOptions, Level, Levels, Serial
from headrace.adapters.cassandra.session import CassandraSession, CqlRows
from headrace.adapters.cassandra.statements import CqlStatement
from headrace.core.errors import CallerError, NotFound, OperatorError, SchemaMismatch, TooLarge, Unreachable
from headrace.testing.rig import ports

URL = "cassandra://ada:s%40ld@one,two:9043/shop?local_dc=north&serial=SERIAL&block_size=7&read.history=ONE"
BURST = 300


def test_a_url_says_where_a_keyspace_is_and_how_it_is_used() -> None:
    options = CassandraOptions.of(URL)
    assert (options.hosts, options.port, options.keyspace) == (("one", "two"), 9043, "shop")
    assert (options.username, options.password, options.local_dc) == ("ada", "s@ld", "north")
    assert (options.serial, options.block_size) == (Serial.GLOBAL, 7)
    assert options.consistency["history"].read == Level.ONE
    assert {**options.consistency, "history": CONSISTENCY["history"]} == CONSISTENCY
    assert "s@ld" not in repr(options)


def test_locks_are_decided_in_the_own_data_centre_by_default() -> None:
    options = CassandraOptions("shop")
    assert (options.serial, CONSISTENCY[LOCK].read, CONSISTENCY[LOCK].write) == ("LOCAL_SERIAL", None, "LOCAL_QUORUM")


@pytest.mark.parametrize(
    ("operation", "reads", "levels"),
    [
        ("lock", True, ("SERIAL", "SERIAL")),
        ("lock", False, ("LOCAL_QUORUM", "SERIAL")),
        ("queue", True, ("LOCAL_QUORUM", "SERIAL")),
        ("history", True, ("ONE", "SERIAL")),
        ("history", False, ("LOCAL_QUORUM", "SERIAL")),
    ],
)
def test_each_operation_has_its_consistency(operation: str, reads: bool, levels: tuple[str, str]) -> None:
    assert CassandraOptions.of(URL).levels(operation, reads=reads) == levels


@pytest.mark.parametrize(
    ("words", "level"), [("", "LOCAL_QUORUM"), ("serial=SERIAL", "SERIAL"), ("write.lock=ONE", "LOCAL_SERIAL")]
)
def test_a_look_is_a_plain_read_where_it_sees_what_was_reported(words: str, level: str) -> None:
    """Over data centres, or if a grant need not be with a majority, only a serial read does."""
    assert CassandraOptions.of(f"cassandra://host/shop?{words}").levels("seen", reads=True)[0] == level


def test_the_record_of_the_serial_kind_does_not_depend_on_it() -> None:
    kinds = {CassandraOptions("shop", serial=serial).levels("settings", reads=False)[1] for serial in Serial}
    assert kinds == {Serial.GLOBAL}


@pytest.mark.parametrize(
    "url",
    [
        "cassandra://host/",
        "cassandra:///shop",
        "cassandra://host/Shop",
        "cassandra://host/shop;drop",
        "cassandra://host:x/shop",
        "cassandra://host/shop?serial=QUORUM",
        "cassandra://host/shop?block_size=0",
        "cassandra://host/shop?timeout_s=0",
        "cassandra://host/shop?colour=red",
        "cassandra://host/shop?read.lock=ONE",
        "cassandra://host/shop?read.seen=ONE",
        "cassandra://host/shop?write.queue=SERIAL",
        "http://host/shop",
    ],
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(CallerError):
        CassandraOptions.of(url)


def test_a_missing_driver_answers_with_the_install_line() -> None:
    program = (
        "import sys; sys.modules['cassandra'] = None\n"
        "import headrace.tables\n"
        "try: headrace.tables.CassandraTables\n"
        "except Exception as error: print(type(error).__name__, error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"MissingExtra {sys.executable} -m pip install 'headrace[cassandra]'\n"


@pytest.mark.parametrize(
    ("text", "operation", "reads", "conditional"),
    [
        ("-- operation: lock\nSELECT a FROM t", "lock", True, False),
        ("-- Why.\nUPDATE t SET a = 1 WHERE b = 2 IF a = 0", "queue", False, True),
        ("INSERT INTO t (a) VALUES (:a) IF NOT EXISTS;", "queue", False, True),
        ("-- If it is there.\nINSERT INTO t (a) VALUES (:a)", "queue", False, False),
    ],
)
def test_a_statement_is_known_by_its_text(text: str, operation: str, reads: bool, conditional: bool) -> None:
    found = CqlStatement.of("it", text)
    assert (found.operation, found.reads, found.conditional) == (operation, reads, conditional)
    assert "--" not in found.text
    assert not found.text.endswith(";")


async def test_a_statement_takes_exactly_its_values(session: CassandraSession) -> None:
    with pytest.raises(CallerError, match="lock_row takes resource_id, and got nothing"):
        await session.run("lock_row")
    with pytest.raises(CallerError, match="got other, resource_id"):
        await session.run("lock_row", {"resource_id": "a", "other": 1})
    with pytest.raises(CallerError, match="lock_row"):
        await session.run("lock_row", {"resource_id": object()})
    with pytest.raises(NotFound, match="lock_rwo"):
        await session.run("lock_rwo")


async def test_small_messages_are_not_compressed(session: CassandraSession) -> None:
    """The driver would where the library is there, as it is here."""
    from cassandra.connection import locally_supported_compressions

    assert locally_supported_compressions
    pools = session.driver.get_pools()
    assert [pool._connection.compressor for pool in pools] == [None] * len(pools) != []


async def test_two_statements_of_one_name_are_refused(session: CassandraSession) -> None:
    with pytest.raises(CallerError, match="two statements called lock_row"):
        await session.prepare({"lock_row": CqlStatement.of("lock_row", "SELECT now() FROM system.local")})


async def test_a_statement_of_an_operation_that_nobody_knows_is_refused(session: CassandraSession) -> None:
    unknown = CqlStatement.of("x", "-- operation: haste\nSELECT now() FROM system.local")
    with pytest.raises(CallerError, match="no operation haste"):
        await session.prepare({"x": unknown})


TOGETHER = {
    "note": CqlStatement.of("note", "INSERT INTO lock_seq (resource, last_seq) VALUES (:resource, :last_seq)"),
    "told": CqlStatement.of(
        "told", "-- operation: history\nINSERT INTO locks (resource_id, holder) VALUES (:resource_id, :holder)"
    ),
}


async def test_plain_writes_go_together(session: CassandraSession, lock_keyspace: str) -> None:
    apart = await session_on(lock_keyspace, consistency={**CONSISTENCY, "history": Levels(None, Level.ONE)})
    for each in (session, apart):
        await each.prepare(TOGETHER)
        name, sent = resource(), list[object]()
        each.driver.add_request_init_listener(lambda response, sent=sent: sent.append(response.query))
        await each.run_together(
            [("note", {"resource": name, "last_seq": 7}), ("told", {"resource_id": name, "holder": "ada"})]
        )
        # A message has one level of consistency.
        assert len(sent) == (1 if each is session else 2)
        assert (await each.run("seq_row", {"resource": name})).rows == [(7,)]
        assert (await each.run("lock_row", {"resource_id": name})).rows == [("ada", None, None, None)]
    await apart.close()


async def test_large_writes_to_several_partitions_are_not_refused(session: CassandraSession) -> None:
    """A server refuses a batch of over 50 KiB, unless it is for one partition."""
    await session.prepare(TOGETHER)
    names, text = (resource(), resource()), "x" * 100_000
    await session.run_together([("told", {"resource_id": name, "holder": text}) for name in names for _ in range(2)])
    for name in names:
        assert (await session.run("lock_row", {"resource_id": name})).rows[0][0] == text


async def test_what_has_an_answer_of_its_own_does_not_go_together(session: CassandraSession) -> None:
    for name, values in (("seq_insert", {"resource": "x", "last_seq": 1}), ("seq_row", {"resource": "x"})):
        with pytest.raises(CallerError, match="an answer of its own"):
            await session.run_together([(name, values)])
    with pytest.raises(NotFound, match="no statement"):
        await session.run_together([("nowhere", {})])


async def test_moments_are_aware(session: CassandraSession) -> None:
    name, moment = resource(), datetime(2026, 1, 31, 12, 30, 15, 250_000, tzinfo=UTC)
    values = {"holder": "a", "fencing_token": 1, "expire_at": moment, "epoch": 0}
    await session.run("lock_insert", {"resource_id": name, **values})
    assert (await session.run("lock_row", {"resource_id": name})).rows[0][2] == moment


@pytest.mark.parametrize(
    ("milliseconds", "read"),
    [(1_731_880_000_000_000, datetime.max), (-(2**63), datetime.min), (2**63 - 1, datetime.max)],
)
async def test_a_time_that_python_has_not_costs_nobody_the_connection(
    session: CassandraSession, milliseconds: int, read: datetime
) -> None:
    """As a foreign client writes it that takes microseconds for milliseconds."""
    name = resource()
    values = {"holder": "a", "fencing_token": 1, "expire_at": milliseconds, "epoch": 0}
    await session.run("lock_insert", {"resource_id": name, **values})
    # Statements of others on the same connection, before and behind the row that cannot be read.
    looks = [session.run("lock_row", {"resource_id": each}) for each in (resource(), name, resource(), name)]
    _, first, _, second = await asyncio.gather(*looks)
    assert [found.rows[0][2] for found in (first, second)] == [read.replace(tzinfo=UTC)] * 2
    refused = await session.run("lock_insert", {"resource_id": name, **values})
    assert not refused.applied


async def test_rows_come_whole_over_several_pages(lock_keyspace: str) -> None:
    session = await session_on(lock_keyspace, page_rows=5)
    names = {resource() for _ in range(12)}
    for name in names:
        values = {"holder": "paged", "fencing_token": 1, "expire_at": 0, "epoch": 0}
        await session.run("lock_insert", {"resource_id": name, **values})
    found = await session.run("lock_rows", {"after": -(2**63), "count": 1_000})
    assert {row[0] for row in found.rows if row[1] == "paged"} == names
    few = await session_on(lock_keyspace, page_rows=5, rows_max=11)
    with pytest.raises(TooLarge, match="over 11 rows"):
        await few.run("lock_rows", {"after": -(2**63), "count": 1_000})
    await session.close()
    await few.close()


async def test_no_statement_has_a_thread_and_few_are_in_flight(lock_keyspace: str) -> None:
    in_flight_max = 4
    session = await session_on(lock_keyspace, in_flight_max=in_flight_max)
    before = set(threading.enumerate())
    most = 0

    async def read() -> CqlRows:
        nonlocal most
        most = max(most, len(set(threading.enumerate()) - before))
        return await session.run("lock_row", {"resource_id": "nobody"})

    answers = await asyncio.gather(*(read() for _ in range(BURST)))
    # The driver may start one to look after a connection meanwhile.
    assert (len(answers), most < in_flight_max) == (BURST, True)
    await session.close()


async def test_a_caller_that_gave_up_leaves_room_for_others(lock_keyspace: str) -> None:
    session = await session_on(lock_keyspace, in_flight_max=1)
    for _ in range(3):
        given_up = asyncio.ensure_future(session.run("lock_row", {"resource_id": "nobody"}))
        await turn()
        given_up.cancel()
        assert (await session.run("lock_row", {"resource_id": "nobody"})).rows == []
    await session.close()


async def test_a_closed_session_says_so(lock_keyspace: str) -> None:
    session = await session_on(lock_keyspace)
    await session.close()
    await session.close()
    with pytest.raises(Unreachable, match="closed"):
        await session.run("lock_row", {"resource_id": "a"})


async def test_nobody_answers() -> None:
    port = ports.reserve_port()
    with pytest.raises(Unreachable, match=str(port)):
        async with headrace.leases(f"cassandra://127.0.0.1:{port}/shop?timeout_s=1"):
            pass
    ports.give_back(port)


async def test_a_data_centre_that_is_not_there_is_named(lock_keyspace: str) -> None:
    wrong = lock_keyspace.replace("local_dc=datacenter1", "local_dc=atlantis")
    with pytest.raises(OperatorError, match="atlantis, only datacenter1"):
        async with headrace.leases(wrong):
            pass


async def test_a_table_that_is_missing_asks_for_the_schema(session: CassandraSession) -> None:
    with pytest.raises(SchemaMismatch) as refused:
        await session.prepare({"x": CqlStatement.of("x", "SELECT a FROM nowhere")})
    assert "schema" in refused.value.hint
