"""Values and batches on MariaDB: both ways of sending many rows leave the same, whatever is in them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy
import pytest
from mysql_handles import count_of, handle_on

from headrace.adapters.mysql import runs
from headrace.adapters.mysql.statements import spelled
from headrace.adapters.mysql.tables import MysqlTables
from headrace.core.errors import CallerError, TooLarge, Unreachable
from headrace.core.table_statements import Step, TableMigration, TablePart, TableStatement
from headrace.core.units import Unit
from headrace.tables import Coded, Columns
from headrace.testing.rig.mariadb import MariaServer

MADE = TableMigration(
    1,
    "many",
    (
        TablePart(
            "",
            "CREATE TABLE many (id integer, whole bigint, big bigint unsigned, small tinyint, exact double,"
            " price decimal(30, 10), name longtext, raw longblob, seen datetime(6), day date, tags json, ok boolean)",
        ),
    ),
)
NAMES = ("id", "whole", "big", "small", "exact", "price", "name", "raw", "seen", "day", "tags", "ok")
ADD = TableStatement.of("add", f"INSERT INTO many ({', '.join(NAMES)}) VALUES (:{', :'.join(NAMES)})")
SEEN = TableStatement.of("seen", 'SELECT *, tags AS "tags [json]", ok AS "ok [bool]" FROM many ORDER BY id')
SIZES = TableStatement.of("sizes", "SELECT count(*), sum(length(raw)) FROM many")
HANOI = timezone(timedelta(hours=7))
NASTY = ("", "it's", "a\\b", "\\", "\\'", "%s %(id)s %%", ":id ?", '"', "\0\n\r\x1a", "ă 数 😀", "a ", "x" * 70_000)
SMALL_PACKET = 65_536


@pytest.fixture
async def tables(mariadb_database: str) -> AsyncIterator[MysqlTables]:
    tables = handle_on(mariadb_database, lanes=1).tables
    await tables.migrate("many", [MADE])
    yield tables
    tables.close()


@pytest.fixture
async def by_text(mariadb_database: str) -> AsyncIterator[MysqlTables]:
    tables = handle_on(mariadb_database, lanes=1, bulk=False).tables
    yield tables
    tables.close()


def row(number: int, **values: object) -> dict[str, Any]:
    return {**dict.fromkeys(NAMES), "id": number, **values}


def rows() -> list[dict[str, Any]]:
    full = row(
        0,
        whole=-(2**63),
        big=2**63 - 1,
        small=-5,
        exact=1 / 3,
        price=Decimal("12345678901234567890.0123456789"),
        name="bolt",
        raw=bytes(range(256)),
        seen=datetime(2026, 11, 16, 21, 52, 19, 123456, tzinfo=HANOI),
        day=date(2026, 2, 28),
        tags={"a": [1, "ă", "\\"]},
        ok=True,
    )
    return [full, row(1), *(row(number + 2, name=name, raw=name.encode()) for number, name in enumerate(NASTY))]


async def added(tables: MysqlTables, values: Any) -> int:
    done = await tables.apply(Unit(f"unit-{id(values)}", (Step(ADD, values),), repeatable=True))
    assert done.steps is not None
    return done.steps[0].count


async def test_every_value_comes_back_as_it_was_by_either_way(tables: MysqlTables, by_text: MysqlTables) -> None:
    given = rows()
    assert [await added(way, given) for way in (tables, by_text)] == [len(given)] * 2
    for values in given:
        await added(tables, (values,))
    found = await tables.read(SEEN, {})
    assert found[0::3] == found[1::3] == found[2::3]
    for values, seen in zip(given, found[0::3], strict=True):
        told = dict(zip(NAMES, (*seen[:10], *seen[-2:]), strict=True))
        assert told == values


async def test_columns_of_arrays_are_the_rows_they_stand_for(tables: MysqlTables, by_text: MysqlTables) -> None:
    count = 1_000
    numbers = numpy.arange(count, dtype="i4")
    exact = numpy.ma.masked_invalid(numpy.where(numbers % 7 == 0, numpy.nan, numbers / 3))
    columns = Columns(
        {
            **{name: Coded(numpy.zeros(count, "u1"), [None]) for name in NAMES},
            "id": numbers,
            "whole": numbers.astype(">i8") - 500,
            "big": numpy.full(count, 2**64 - 1, dtype="u8"),
            "small": (numbers % 100).astype("i1"),
            "exact": exact,
            "name": Coded(numbers % 3, ["a", None, "it's"]),
            "raw": [bytes(number % 300) for number in range(count)],
            "seen": Coded(numbers % 2, [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)]),
            "ok": numbers % 2 == 0,
        }
    )
    assert [await added(way, columns) for way in (tables, by_text)] == [count] * 2
    found = await tables.read(SEEN, {})
    assert found[0::2] == found[1::2]
    assert found[6][:10] == (3, -497, 2**64 - 1, 3, 1.0, None, "a", bytes(3), datetime(2026, 1, 2, tzinfo=UTC), None)
    assert found[0][4] is None, "NaN was masked"
    assert list(columns)[3] == columns[3] == dict(columns[3:4][0])


async def test_what_is_no_value_is_refused_by_the_name_of_its_column(tables: MysqlTables, by_text: MysqlTables) -> None:
    wrong = {"whole": 2**70, "exact": float("nan"), "name": "\ud800", "raw": object(), "seen": datetime(2026, 1, 1)}
    for name, value in wrong.items():
        for way in (tables, by_text):
            for count in (1, 2):
                with pytest.raises(CallerError):
                    await added(way, [row(number, **{name: value}) for number in range(count)])
    for array in (numpy.array([1.0, numpy.nan]), numpy.array([1.0, numpy.inf])):
        with pytest.raises(CallerError, match=r"exact: .*NaN"):
            await added(tables, Columns({**{name: [None] * 2 for name in NAMES}, "exact": array}))
    assert await tables.read(SEEN, {}) == []


async def test_a_batch_is_few_questions_to_the_server(
    tables: MysqlTables, by_text: MysqlTables, mariadb_server: MariaServer
) -> None:
    await added(tables, (row(0),))
    given = [row(number, name="x") for number in range(1_000)]
    for way, prepared in ((tables, 1), (by_text, 0)):
        before = count_of(mariadb_server, "Com_stmt_prepare")
        asked = count_of(mariadb_server, "Questions")
        await added(way, given)
        assert count_of(mariadb_server, "Com_stmt_prepare") - before == prepared
        assert count_of(mariadb_server, "Questions") - asked < 30, "those of the test and of a login included"


@pytest.fixture
def small_packets(mariadb_server: MariaServer, mariadb_database: str) -> Iterator[None]:
    before = mariadb_server.query("SELECT @@global.max_allowed_packet")[0][0]
    mariadb_server.query(f"SET GLOBAL max_allowed_packet = {SMALL_PACKET}")
    yield
    mariadb_server.query(f"SET GLOBAL max_allowed_packet = {before}")


@pytest.mark.parametrize("bulk", [True, False])
async def test_what_is_over_the_servers_packet_goes_in_pieces_or_is_refused(
    small_packets: None, mariadb_database: str, bulk: bool
) -> None:
    tables = handle_on(mariadb_database, lanes=1, bulk=bulk).tables
    await tables.migrate("many", [MADE])
    await arrives_in_pieces(tables)
    for count in (1, 3):
        with pytest.raises(TooLarge, match="max_allowed_packet = 65,5"):
            await added(tables, [row(number, raw=bytes(SMALL_PACKET * number)) for number in range(count, 0, -1)])
    assert (await tables.read(SIZES, {}))[0][0] == 200, "and the connection goes on"
    tables.close()


async def arrives_in_pieces(tables: MysqlTables) -> None:
    assert await added(tables, [row(number, raw=bytes(1_500)) for number in range(200)]) == 200
    assert await tables.read(SIZES, {}) == [(200, 200 * 1_500)]


class AllAtOnce(MysqlTables):
    """Does not ask the server what it takes."""

    async def apply(self, unit: Unit) -> Any:
        def work(connection: Any) -> Any:
            connection.max_allowed_packet = 1 << 30
            return runs.run(connection, unit.steps[0])

        return await self._lanes.write(work)


@pytest.mark.parametrize("bulk", [True, False])
async def test_to_send_all_at_once_is_noticed(small_packets: None, mariadb_database: str, bulk: bool) -> None:
    tables = handle_on(mariadb_database, AllAtOnce, lanes=1, bulk=bulk).tables
    await tables.migrate("many", [MADE])
    with pytest.raises((TooLarge, Unreachable), match=r"packet|does not answer"):
        await arrives_in_pieces(tables)
    tables.close()


GROUPED: Mapping[str, tuple[str, int] | None] = {
    "INSERT INTO t (a, b) VALUES (:a, lower(:b)) ON DUPLICATE KEY UPDATE b = VALUES(b)": ("(", 3),
    "INSERT INTO t (a) VALUES (:a), (:b)": None,
    "INSERT INTO t (a) VALUES (:a) ON DUPLICATE KEY UPDATE a = :b": None,
    "INSERT INTO t (a) VALUES (:a) RETURNING a": None,
    "INSERT INTO t (a) SELECT :a FROM u WHERE b IN (VALUES (:b))": None,
    "UPDATE t SET a = :a WHERE b = 'VALUES (:b)'": None,
}


@pytest.mark.parametrize("text", GROUPED)
def test_only_an_insert_of_one_row_is_written_for_many(text: str) -> None:
    group = spelled(text).group
    assert (group and (group.pieces[0], len(group.pieces))) == GROUPED[text]


COPY = TableStatement.of("copy", "INSERT INTO many (id, name) SELECT :id, name FROM many WHERE id = :of")


async def test_what_the_bulk_command_does_not_take_is_run_one_by_one(tables: MysqlTables) -> None:
    await added(tables, (row(0, name="x"),))
    values = tuple({"id": number, "of": number - 1} for number in range(1, 4))
    done = await tables.apply(Unit("unit-1", (Step(COPY, values, expect=3),)))
    assert done.steps is not None
    assert [each[0] for each in await tables.read(SEEN, {})] == [0, 1, 2, 3]
