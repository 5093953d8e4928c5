"""What may go wrong between a unit and its COMMIT on MariaDB, and what is left then: all of the unit, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from mysql_handles import Somebody, count_of, handle_on, shelf_on, somebody_in
from waiting import eventually, until

from headrace.adapters.mysql.connections import connect
from headrace.adapters.mysql.driver import MysqlDriver
from headrace.adapters.mysql.runs import run
from headrace.adapters.mysql.tables import MysqlTables
from headrace.adapters.mysql.wire import MysqlConnection
from headrace.core.errors import Busy, CallerError, Conflict, Unknown, Unreachable
from headrace.core.table_statements import Step, TableStatement
from headrace.core.units import Unit, UnitDone
from headrace.runtime.open_tables import OpenTables
from headrace.testing.contracts.shelf import step, tables_on
from headrace.testing.rig.mariadb import MariaServer
from headrace.testing.rig.proxy import Proxy

TAKE = Unit("unit-1", (step("take", dialect="mysql", article="bolt"),))
FILL = "INSERT INTO shelf (article) SELECT CONCAT('x', seq) FROM seq_1_to_200"
WAITS = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
LOCK_WAIT_S = 1.0


@pytest.fixture
def line(mariadb_database: str, fault_proxy: Callable[[str], Proxy]) -> Proxy:
    return fault_proxy(mariadb_database)


@pytest.fixture
async def far(line: Proxy) -> AsyncIterator[OpenTables]:
    """Tables over a line that will be cut, with a shelf of nine bolts and nine nuts."""
    tables = handle_on(line.url, lanes=1, lock_wait_s=LOCK_WAIT_S).tables
    yield await stocked(tables)
    tables.close()


async def stocked(tables: MysqlTables) -> OpenTables:
    opened = await shelf_on(tables)
    for article in ("bolt", "nut"):
        await opened.run("add", article=article, amount=9)
    return opened


async def test_a_unit_whose_commit_is_not_answered_is_applied_once(far: OpenTables, line: Proxy) -> None:
    line.cut_reply_to(b"COMMIT")
    with pytest.raises(Unknown):
        await far.tables.apply(TAKE)
    assert line.cuts == 1
    assert (await far.tables.apply(TAKE)).steps is None
    assert await far.one("amount", article="bolt") == (8, 1)


async def test_who_only_opens_a_block_is_spared_both(far: OpenTables, line: Proxy) -> None:
    for cut in (line.cut_reply_to, line.cut_before):
        cut(b"COMMIT")
        async with far.transaction() as tx:
            tx.run("take", article="bolt", expect=1)
    assert line.cuts == 2
    assert await far.one("amount", article="bolt") == (7, 2)


class Trusting(MysqlTables):
    """Takes a repeat for a unit of its own: no mark is kept."""

    async def apply(self, unit: Unit) -> UnitDone:
        return await super().apply(replace(unit, repeatable=True))


class Hopeful(MysqlTables):
    """Takes a COMMIT without an answer for done."""

    async def apply(self, unit: Unit) -> UnitDone:
        try:
            return await super().apply(unit)
        except Unknown:
            return UnitDone(None, ())


async def sent_until_it_is_answered(far: OpenTables) -> None:
    for _ in range(2):
        with suppress(Unknown):
            await far.tables.apply(TAKE)
            break
    assert await far.one("amount", article="bolt") == (8, 1)


@pytest.mark.parametrize("cut", ["cut_reply_to", "cut_before"])
async def test_whatever_became_of_a_commit_the_same_unit_again_tells(far: OpenTables, line: Proxy, cut: str) -> None:
    getattr(line, cut)(b"COMMIT")
    await sent_until_it_is_answered(far)
    assert line.cuts == 1


@pytest.mark.parametrize(("kind", "cut"), [(Trusting, "cut_reply_to"), (Hopeful, "cut_before")])
async def test_to_guess_what_became_of_a_commit_is_noticed(line: Proxy, kind: type[MysqlTables], cut: str) -> None:
    tables = handle_on(line.url, kind, lanes=1).tables
    opened = await stocked(tables)
    getattr(line, cut)(b"COMMIT")
    with pytest.raises(AssertionError, match=r"== \(8, 1\)"):
        await sent_until_it_is_answered(opened)
    assert line.cuts == 1
    tables.close()


async def test_what_broke_before_the_commit_was_not_done_and_is_not_unknown(far: OpenTables, line: Proxy) -> None:
    line.cut_reply_to(b"UPDATE shelf")
    with pytest.raises(Unreachable):
        await far.tables.apply(TAKE)
    assert line.cuts == 1
    assert await far.one("amount", article="bolt") == (9, 0)
    line.cut_reply_to(b"SELECT amount")
    assert await far.one("amount", article="bolt") == (9, 0), "a read is repeated on a fresh connection"


async def test_a_connection_that_was_killed_while_it_rested_swallows_no_write(
    near: OpenTables, mariadb_server: MariaServer, mariadb_database: str
) -> None:
    mine = f"FROM information_schema.processlist WHERE db = '{mariadb_database.rpartition('/')[2]}'"
    ((number,),) = mariadb_server.query(f"SELECT id {mine}")
    mariadb_server.query(f"KILL CONNECTION {number}")
    until(lambda: not mariadb_server.query(f"SELECT 1 {mine}"), "the connection has gone")
    assert (await near.tables.apply(TAKE)).steps is not None


async def both_are_applied(far: OpenTables, server: MariaServer, somebody: Somebody) -> None:
    """Somebody holds the nuts and much else, waits for our bolts, and so the server chooses our unit as the victim."""
    before = count_of(server, "Innodb_deadlocks")
    somebody.run(FILL)
    somebody.run("UPDATE shelf SET amount = 50 WHERE article = 'nut'")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(take_both(far))
        await eventually(lambda: server.query(WAITS), "our unit waits for the nuts")
        await asyncio.to_thread(somebody.run, "UPDATE shelf SET amount = 50 WHERE article = 'bolt'")
        assert count_of(server, "Innodb_deadlocks") == before + 1
        somebody.commit()
    assert [await far.one("amount", article=article) for article in ("bolt", "nut")] == [(49, 1), (49, 1)]


async def take_both(far: OpenTables) -> None:
    async with far.transaction() as tx:
        for article in ("bolt", "nut"):
            tx.run("take", article=article, expect=1)


@pytest.fixture
async def near(mariadb_database: str) -> AsyncIterator[OpenTables]:
    tables = handle_on(mariadb_database, lanes=1, lock_wait_s=60.0).tables
    yield await stocked(tables)
    tables.close()


async def test_a_unit_that_lost_a_deadlock_is_applied_whole(
    near: OpenTables, mariadb_server: MariaServer, mariadb_database: str
) -> None:
    with somebody_in(mariadb_server, mariadb_database) as somebody:
        await both_are_applied(near, mariadb_server, somebody)


class GivesUp(MysqlDriver):
    def is_again(self, error: Exception) -> bool:
        return False


class WithoutRepeat(MysqlTables):
    driver = GivesUp


async def test_to_give_up_after_a_deadlock_is_noticed(mariadb_server: MariaServer, mariadb_database: str) -> None:
    tables = handle_on(mariadb_database, WithoutRepeat, lanes=1, lock_wait_s=60.0).tables
    opened = await stocked(tables)
    with somebody_in(mariadb_server, mariadb_database) as somebody, pytest.raises(ExceptionGroup) as caught:
        await both_are_applied(opened, mariadb_server, somebody)
    assert caught.group_contains(CallerError, match="Deadlock")
    tables.close()


async def nothing_remains(far: OpenTables, somebody: Somebody) -> None:
    """The server undoes the statement that waited too long, and nothing else."""
    somebody.run("UPDATE shelf SET amount = 50 WHERE article = 'nut'")
    steps = (step("add", dialect="mysql", article="new", amount=1), step("take", dialect="mysql", article="nut"))
    with pytest.raises(Busy, match="Lock wait timeout"):
        await far.tables.apply(Unit("unit-2", steps))
    await far.run("take", article="bolt")
    assert await far.rows("articles") == [("bolt",), ("nut",)]


async def test_a_unit_that_waited_too_long_for_a_lock_is_undone_whole(
    far: OpenTables, mariadb_server: MariaServer, mariadb_database: str
) -> None:
    with somebody_in(mariadb_server, mariadb_database) as somebody:
        await nothing_remains(far, somebody)


class WithoutRollback(MysqlTables):
    """Leaves what was done before the error where it is: the next BEGIN commits it."""

    async def apply(self, unit: Unit) -> UnitDone:
        return await self._lanes.write(lambda connection: _careless(connection, unit))


def _careless(connection: MysqlConnection, unit: Unit) -> UnitDone:
    connection.begin()
    done = tuple(run(connection, each) for each in unit.steps)
    connection.commit()
    return UnitDone(done, ())


async def test_to_forget_the_rollback_is_noticed(
    far: OpenTables, line: Proxy, mariadb_server: MariaServer, mariadb_database: str
) -> None:
    tables = handle_on(line.url, WithoutRollback, lanes=1, lock_wait_s=LOCK_WAIT_S).tables
    with somebody_in(mariadb_server, mariadb_database) as somebody, pytest.raises(AssertionError, match="new"):
        await nothing_remains(tables_on(tables), somebody)
    tables.close()


async def test_a_server_that_was_killed_has_kept_what_it_confirmed(
    near: OpenTables, mariadb_server: MariaServer
) -> None:
    assert (await near.tables.apply(TAKE)).steps is not None
    mariadb_server.kill()
    with pytest.raises(Unreachable):
        await near.tables.apply(replace(TAKE, unit_id="unit-2"))
    mariadb_server.start()
    assert (await near.tables.apply(replace(TAKE, unit_id="unit-2"))).steps is not None
    assert (await near.tables.apply(TAKE)).steps is None
    assert await near.one("amount", article="bolt") == (7, 2)


EQUAL = TableStatement.of("equal", "UPDATE shelf SET amount = :amount WHERE article = :article")


async def an_equal_value_counts(near: OpenTables) -> None:
    for count in (1, 2):
        values = tuple({"amount": 9, "article": article} for article in ("bolt", "nut")[:count])
        await near.tables.apply(Unit(f"equal-{count}", (Step(EQUAL, values, expect=count),)))


async def test_an_update_to_equal_values_has_found_its_row(near: OpenTables) -> None:
    await an_equal_value_counts(near)


class Plain(MysqlDriver):
    def open(self) -> MysqlConnection:
        return connect(self._options, flags=0)


class CountsChanges(MysqlTables):
    driver = Plain


async def test_to_count_changed_rows_instead_of_found_ones_is_noticed(near: OpenTables, mariadb_database: str) -> None:
    tables = handle_on(mariadb_database, CountsChanges, lanes=1).tables
    with pytest.raises(Conflict):
        await an_equal_value_counts(tables_on(tables))
    tables.close()


async def test_a_server_that_does_not_answer_is_given_up(far: OpenTables, line: Proxy) -> None:
    tables = handle_on(line.url, lanes=1, answer_s=0.3).tables
    assert await tables_on(tables).one("amount", article="bolt") == (9, 0)
    line.black_hole()
    with pytest.raises(Unreachable):
        await tables.apply(TAKE)
    line.heal()
    assert await far.one("amount", article="bolt") == (9, 0)
    tables.close()


class Forgetful(MysqlTables):
    units_between = 1


async def test_marks_that_cannot_be_forgotten_take_no_answer_away(line: Proxy) -> None:
    tables = handle_on(line.url, Forgetful, lanes=1).tables
    opened = await stocked(tables)
    line.cut_before(b"DELETE FROM headrace_unit")
    async with opened.transaction() as tx:
        taken = tx.run("take", article="bolt")
    assert (line.cuts, taken.count) == (1, 1)
    tables.close()


async def test_errors_name_no_password(line: Proxy) -> None:
    tables = handle_on(line.url, lanes=1, password="open-sesame").tables
    with pytest.raises(Unreachable, match="Access denied") as caught:
        await tables_on(tables).rows("articles")
    assert caught.value.hint == "check the user and the password in the URL"
    assert "sesame" not in f"{caught.value}{caught.value.__cause__}{tables._options!r}"
    tables.close()
