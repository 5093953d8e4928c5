"""The steps of a unit go to the server together, and what stops one of them stops those behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from mysql_handles import handle_on, shelf_on

from headrace.adapters.mysql.driver import MysqlDriver
from headrace.adapters.mysql.runs import run
from headrace.adapters.mysql.tables import MysqlTables
from headrace.adapters.mysql.wire import MysqlConnection
from headrace.core.errors import CallerError, Conflict
from headrace.core.table_statements import Step, TableStatement
from headrace.core.units import Unit, UnitDone
from headrace.runtime.open_tables import OpenTables
from headrace.testing.contracts.shelf import step

ADD, TAKE = "add", "take"
FEW = tuple(step(ADD, dialect="mysql", article=article, amount=9) for article in ("bolt", "nut", "rod"))
SENT: list[int] = []


class Counted(MysqlDriver):
    """Writes down what is sent to the server."""

    def open(self) -> MysqlConnection:
        connection = super().open()
        send = connection._execute_command

        def counted(command: int, sql: str | bytes) -> None:
            SENT.append(command)
            send(command, sql)

        connection._execute_command = counted  # type: ignore[method-assign]
        return connection


class CountedTables(MysqlTables):
    driver = Counted


class OneByOne(CountedTables):
    """Waits for each answer before it says the next."""

    async def apply(self, unit: Unit) -> UnitDone:
        return await self._lanes.write(lambda connection: _one_by_one(connection, unit))


def _one_by_one(connection: MysqlConnection, unit: Unit) -> UnitDone:
    connection.begin()
    done = tuple(run(connection, each) for each in unit.steps)
    connection.commit()
    return UnitDone(done, ())


@pytest.fixture
async def opened(mariadb_database: str) -> AsyncIterator[OpenTables]:
    tables = handle_on(mariadb_database, CountedTables, lanes=1).tables
    yield await shelf_on(tables)
    tables.close()


async def packets_of(tables: MysqlTables, unit: Unit) -> int:
    await tables.read(TableStatement.of("one", "SELECT 1"), {})
    SENT.clear()
    assert (await tables.apply(unit)).steps is not None
    return len(SENT)


async def it_is_one_packet(tables: MysqlTables) -> None:
    assert await packets_of(tables, Unit("few", FEW, repeatable=True)) == 1


async def test_what_needs_no_decision_is_one_packet(opened: OpenTables, mariadb_database: str) -> None:
    tables = handle_on(mariadb_database, CountedTables, lanes=1).tables
    await it_is_one_packet(tables)
    assert await opened.rows("articles") == [("bolt",), ("nut",), ("rod",)]
    tables.close()


async def test_to_say_one_after_the_other_is_noticed(opened: OpenTables, mariadb_database: str) -> None:
    tables = handle_on(mariadb_database, OneByOne, lanes=1).tables
    with pytest.raises(AssertionError, match="5 == 1"):
        await it_is_one_packet(tables)
    tables.close()


async def test_what_is_expected_is_looked_at_before_the_commit(opened: OpenTables, mariadb_database: str) -> None:
    tables = handle_on(mariadb_database, CountedTables, lanes=1).tables
    assert await packets_of(tables, Unit("marked", FEW)) == 2
    unit = Unit("wrong", (step(TAKE, dialect="mysql", article="bolt"), step(TAKE, 1, "mysql", article="none")))
    for each in (unit, replace(unit, repeatable=True)):
        with pytest.raises(Conflict):
            await tables.apply(each)
    assert await opened.one("amount", article="bolt") == (9, 0)
    tables.close()


@pytest.mark.parametrize("repeatable", [True, False])
@pytest.mark.parametrize("first", [1, 3, 5])
async def test_what_stands_behind_an_error_is_not_run(opened: OpenTables, first: int, repeatable: bool) -> None:
    """Also if it is a key that is there already: that is no sign that the unit was applied before."""
    others = tuple(step(TAKE, dialect="mysql", article="bolt") for _ in range(first))
    await opened.run(ADD, article="bolt", amount=9)
    many = opened._catalogue.step(ADD, tuple({"article": f"x{n}", "amount": 1} for n in range(3)), None)
    for steps in ((*others, FEW[0], *others), (many, *others, FEW[0])):
        with pytest.raises(CallerError, match="Duplicate entry"):
            await opened.tables.apply(Unit("unit", steps, repeatable=repeatable))
    assert await opened.one("amount", article="bolt") == (9, 0)
    assert await opened.rows("articles") == [("bolt",)]


async def test_a_statement_is_one_statement(opened: OpenTables) -> None:
    two = TableStatement.of("two", "DELETE FROM shelf; DELETE FROM kept")
    with pytest.raises(CallerError, match="more than one statement"):
        await opened.tables.apply(Unit("two", (Step(two, ({},)),)))


async def test_remarks_and_semicolons_part_nothing(opened: OpenTables) -> None:
    texts = (
        "-- first; it is\nINSERT INTO shelf (article, amount) VALUES ('a;b', 1); -- last",
        "INSERT INTO shelf (article, amount) VALUES (:article, 2) # done;",
        "INSERT INTO shelf (article, amount) VALUES ('c', 3) -- no end",
    )
    steps = tuple(Step(TableStatement.of(f"s{n}", text), ({"article": "x; --'"},)) for n, text in enumerate(texts))
    await opened.tables.apply(Unit("remarks", steps, repeatable=True))
    assert await opened.rows("articles") == [("a;b",), ("c",), ("x; --'",)]


async def test_what_the_server_would_run_is_no_remark(opened: OpenTables) -> None:
    """A minus after a minus takes away, and what stands in a remark for one server is a statement to it."""
    texts = (
        "UPDATE shelf SET amount = 5--1; DELETE FROM shelf",
        "UPDATE shelf SET amount = 5 /*! ; DELETE FROM shelf */",
        "UPDATE shelf SET amount = 5 /*M! ; DELETE FROM headrace_unit */",
    )
    for text in texts:
        with pytest.raises(CallerError, match=r"more than one statement|belongs to headrace"):
            await opened.tables.apply(Unit("two", (Step(TableStatement.of("two", text), ({},)),)))
    await opened.run(ADD, article="bolt", amount=9)
    minus = TableStatement.of("minus", "UPDATE shelf SET amount = 5--1 /*M! * 2 */ --\n WHERE TRUE")
    await opened.tables.apply(Unit("one", (Step(minus, ({},)),), repeatable=True))
    assert await opened.one("amount", article="bolt") == (7, 0)


async def test_an_answer_that_cannot_be_read_leaves_nothing_open(opened: OpenTables, mariadb_database: str) -> None:
    """What is left of a transaction would be committed by the next one's BEGIN."""
    await opened.run(ADD, article="bolt", amount=9)
    tables = handle_on(mariadb_database, CountedTables, lanes=1).tables
    unreadable = Step(TableStatement.of("bad", "SELECT '{' AS \"c [json]\""), ({},))
    with pytest.raises((CallerError, ValueError)):
        await tables.apply(Unit("bad", (FEW[1], unreadable, FEW[0])))
    await tables.apply(Unit("good", (FEW[2],)))
    assert await opened.rows("articles") == [("bolt",), ("rod",)]
    tables.close()


async def test_the_longest_statement_leaves_the_commit_for_another_packet(
    opened: OpenTables, mariadb_database: str
) -> None:
    tables = handle_on(mariadb_database, CountedTables, lanes=1).tables
    ((longest,),) = await tables.read(TableStatement.of("limit", "SELECT @@max_allowed_packet"), {})
    long = TableStatement.of("long", "UPDATE shelf SET amount = LENGTH(:text)")
    text = "x" * (longest - 2 - len("UPDATE shelf SET amount = LENGTH('')"))
    await opened.run(ADD, article="bolt", amount=9)
    assert await packets_of(tables, Unit("long", (Step(long, ({"text": text},)),), repeatable=True)) == 3
    assert await opened.one("amount", article="bolt") == (len(text), 0)
    tables.close()


async def test_a_long_unit_is_sent_in_pieces(opened: OpenTables, mariadb_database: str) -> None:
    tables = handle_on(mariadb_database, CountedTables, lanes=1).tables
    long = TableStatement.of("long", "UPDATE shelf SET amount = LENGTH(:text)")
    unit = Unit("long", (*FEW, *(Step(long, ({"text": "x" * 1_500_000},)) for _ in range(6))), repeatable=True)
    assert await packets_of(tables, unit) == 3
    assert await opened.one("amount", article="rod") == (1_500_000, 0)
    tables.close()
