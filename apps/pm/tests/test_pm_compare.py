"""Production against shadow on a real MariaDB: whatever differs is found, by NE, time and counter, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from subprocess import CompletedProcess
from typing import Any, cast

import pytest
from pm_shadow_world import SHADOW, filled, make_tables

from headrace.core.table_statements import Row, TableStatement
from headrace.errors import CallerError, NotFound
from headrace.ports import Tables
from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.shadow.comparison import CompareScope, CounterComparison, compared, open_compared
from headrace_pm.shadow.differences import Compared, CounterPlace
from headrace_pm.shadow.shadow_tables import COMPARED

ROWS = 60_000
MORNING = datetime(2026, 1, 1, tzinfo=UTC)
Change = Callable[[str], None]


@pytest.fixture(scope="module")
def database(mariadb_server: MariaServer) -> Iterator[str]:
    with mariadb_server.database() as url:
        asyncio.run(make_tables(url))
        yield url


@pytest.fixture(scope="module")
def tables(mariadb_server: MariaServer, database: str) -> Iterator[Any]:
    with filled(mariadb_server, database, ROWS) as connection:
        yield connection


@pytest.fixture
def change(tables: Any) -> Iterator[Change]:
    """Statements on the shadow's rows of element 2, which are put right afterwards."""

    def run(statement: str) -> None:
        with tables.cursor() as cursor:
            cursor.execute(statement)

    yield run
    run(f"DELETE FROM {SHADOW} WHERE ne_id = 2")
    run(f"INSERT INTO {SHADOW} SELECT * FROM pm_counter_data WHERE ne_id = 2")


async def found(database: str, **scope: Any) -> Compared:
    return await compared(database, CompareScope(**scope))


async def test_equal_tables_are_equal_whatever_their_versions(database: str, tables: Any) -> None:
    answer = await found(database)
    assert answer.equal
    assert (answer.production_rows, answer.shadow_rows, answer.times) == (ROWS, ROWS, ROWS // 200)


ONE = "ne_id = 2 AND record_time = '2026-01-01 02:30:00' AND counter_id = {}"
CHANGES = {
    "missing": f"DELETE FROM {SHADOW} WHERE",
    "extra": f"INSERT INTO {SHADOW} SELECT ne_id, record_time, duration, counter_id, counter_value, group_code, '4G',"
    " cell_index, obj_hash, extra_field, version FROM pm_counter_data WHERE",
    "counter_value": f"UPDATE {SHADOW} SET counter_value = counter_value * 1.0000000000000002 WHERE",
    "group_code": f"UPDATE {SHADOW} SET group_code = CONCAT(group_code, ' ') WHERE",
    "cell_index": f"UPDATE {SHADOW} SET cell_index = cell_index | 1 << 62 WHERE",
    "extra_field": f"UPDATE {SHADOW} SET extra_field = NULL WHERE",
}
OTHER_OBJECT = f"UPDATE {SHADOW} SET obj_hash = obj_hash ^ (1 << 63) WHERE"
PLACE = MORNING + timedelta(hours=2, minutes=30)


async def test_one_planted_difference_is_found_where_it_is(database: str, change: Change) -> None:
    change(f"{CHANGES['counter_value']} {ONE.format(1007)}")
    answer = await found(database)
    (difference,) = answer.differences
    assert difference.place == CounterPlace(2, PLACE, 1007)
    assert answer.places_left == 0
    for elsewhere in ({"ne_id": 3}, {"begin": PLACE + timedelta(milliseconds=1)}, {"end": PLACE}):
        assert (await found(database, **elsewhere)).equal
    assert not (await found(database, ne_id=2, begin=PLACE, end=PLACE + timedelta(milliseconds=1))).equal


async def test_what_differs_is_told(database: str, change: Change) -> None:
    for counter, statement in enumerate(CHANGES.values(), 1001):
        change(f"{statement} {ONE.format(counter)}")
    differences = (await found(database)).differences
    assert [difference.place.counter_id for difference in differences] == list(range(1001, 1001 + len(CHANGES)))
    for what, difference in zip(CHANGES, differences, strict=True):
        (row,) = difference.rows
        assert row.kind == (what if what in ("missing", "extra") else "different")
        assert difference.count(row.kind) == 1
        if row.production is not None and row.shadow is not None:
            assert set(row.production) == set(row.shadow) == {what}
    without = (await found(database, extra=False)).differences
    assert len(without) == len(CHANGES) - 1, "what extra_field says can be left out"
    some = await found(database, limit=2)
    assert (len(some.differences), some.places_left, some.equal) == (2, 1, False)


async def test_floats_count_by_their_bits_and_null_is_a_value(database: str, change: Change) -> None:
    """Production has the one and the shadow the other: each is a difference, and equal ones are none."""
    pairs = (
        ("1e-320", "-1e-320"),
        ("5e-324", "0e0"),
        ("0.1e0", "0.10000000000000002e0"),
        ("NULL", "0e0"),
        ("0e0", "NULL"),
    )
    for counter, pair in enumerate(pairs, 1001):
        for table, value in zip(("pm_counter_data", SHADOW), pair, strict=True):
            change(f"UPDATE {table} SET counter_value = {value} WHERE {ONE.format(counter)}")
    differences = (await found(database, ne_id=2)).differences
    assert [difference.place.counter_id for difference in differences] == list(range(1001, 1001 + len(pairs)))
    for counter, (value, _) in enumerate(pairs, 1001):
        change(f"UPDATE {SHADOW} SET counter_value = {value} WHERE {ONE.format(counter)}")
    assert (await found(database, ne_id=2)).equal


async def test_the_same_change_in_two_rows_does_not_cancel(database: str, change: Change) -> None:
    for counter in (1001, 1002):
        change(f"UPDATE {SHADOW} SET cell_index = cell_index ^ (1 << 40) WHERE {ONE.format(counter)}")
    assert len((await found(database, ne_id=2)).differences) == 2


async def test_an_element_that_is_missing_whole_is_told_up_to_the_limit(database: str, change: Change) -> None:
    change(f"DELETE FROM {SHADOW} WHERE ne_id = 2")
    answer = await found(database, limit=3)
    assert (answer.production_rows, answer.shadow_rows) == (ROWS, ROWS - 20_000)
    assert [len(difference.rows) for difference in answer.differences] == [1, 1, 1]
    assert answer.places_left == 100


async def test_ranges_of_any_size_say_the_same(database: str, change: Change) -> None:
    change(f"{CHANGES['group_code']} {ONE.format(1003)}")
    for rows_per_query in (5_000, 25_000):
        async with open_compared(database) as sides:
            answer = await CounterComparison(*sides, CompareScope(), rows_per_query).run()
        assert [difference.place.counter_id for difference in answer.differences] == [1003]
        assert (answer.production_rows, answer.times) == (ROWS, ROWS // 200)


async def test_elements_are_found_without_reading_their_rows(tables: Any) -> None:
    text = COMPARED.named("mysql")["counters_elements"].text
    values = {":ne_min": "1", ":ne_max": "9", ":begin": "'2000-01-01'", ":end": "'2100-01-01'"}
    for name, value in values.items():
        text = text.replace(name, value)
    with tables.cursor() as cursor:
        cursor.execute(f"EXPLAIN {text}")
        assert "Using index for group-by" in cursor.fetchall()[0][-1]


async def test_tables_that_cannot_be_compared_are_refused(mariadb_server: MariaServer, mariadb_database: str) -> None:
    with pytest.raises(NotFound, match="there is no table pm_counter_data"):
        await found(mariadb_database)
    await make_tables(mariadb_database)
    name = mariadb_database.rpartition("/")[2]
    mariadb_server.query(f"ALTER TABLE {SHADOW} MODIFY counter_value FLOAT, ADD COLUMN vendor INT", name)
    with pytest.raises(
        CallerError, match="counter_value is double and float; vendor is only in pm_shadow_counter_data"
    ):
        await found(mariadb_database)
    mariadb_server.query(f"DROP TABLE {SHADOW}", name)
    with pytest.raises(NotFound, match="there is no table pm_shadow_counter_data"):
        await found(mariadb_database)
    with pytest.raises(CallerError, match="--to is not after --from"):
        await found(mariadb_database, begin=MORNING, end=MORNING)


def test_the_command_says_ne_time_and_counter_and_ends_with_1(
    database: str, change: Change, headrace_command: Callable[..., CompletedProcess[str]]
) -> None:
    known = {"PM_MYSQL_DSN": database}
    same = headrace_command("pm", "compare", "--ne", "2", **known)
    assert (same.returncode, same.stdout[:50]) == (0, "equal: 20,000 rows in production, 20,000 in the sh")
    change(f"UPDATE {SHADOW} SET counter_value = 1.5 WHERE {ONE.format(1007)}")
    change(f"DELETE FROM {SHADOW} WHERE {ONE.format(1008)}")
    other = headrace_command("pm", "compare", "--from", "2026-01-01 02:00", "--to", "2026-01-02", **known)
    first, second, last = other.stdout.splitlines()
    assert other.returncode == 1
    assert first.startswith("NE 2  2026-01-01 02:30:00  counter 1007  different: counter_value 14")
    assert " became 1.5 (duration 900, rat_type '5G', obj_hash " in first
    assert second.startswith("NE 2  2026-01-01 02:30:00  counter 1008  missing: duration 900")
    assert last.startswith("different: ")
    document = json.loads(headrace_command("pm", "compare", "--ne", "2", "--json", **known).stdout)
    assert [document["equal"], document["more"]] == [False, 0]
    told = [(each["record_time"], each["counter_id"], each["different"]) for each in document["differences"]]
    assert told == [("2026-01-01 02:30:00", 1007, 1), ("2026-01-01 02:30:00", 1008, 0)]
    assert headrace_command("pm", "compare", PM_MYSQL_DSN="").returncode == 2


class BrokenReads:
    """Tables of which one statement lacks a guard."""

    def __init__(self, tables: Tables, guard: str, instead: str) -> None:
        self._tables, self._guard, self._instead = tables, guard, instead

    async def read(self, statement: TableStatement, values: Mapping[str, object]) -> list[Row]:
        if statement.name == "counters_digest":
            assert self._guard in statement.text
            statement = replace(statement, text=statement.text.replace(self._guard, self._instead))
        return await self._tables.read(statement, values)


TWINS = {
    "a value without its bits": ("IFNULL(counter_value, 0)", "ROUND(IFNULL(counter_value, 0))", "counter_value"),
    "a NULL that is 0": ("(counter_value IS NULL) * 4294967296", "0", "NULL"),
    "an object without its upper half": ("obj_hash >> 32", "0", "obj_hash"),
    "text without NULL": ("IF(:extra, extra_field, NULL)", "IF(:extra, IFNULL(extra_field, ''), NULL)", "empty"),
}


@pytest.mark.parametrize("bug", TWINS)
async def test_a_digest_without_its_guard_is_noticed(database: str, change: Change, bug: str) -> None:
    guard, instead, what = TWINS[bug]
    where = ONE.format(1021)
    if what == "NULL":
        change(f"UPDATE pm_counter_data SET counter_value = 0 WHERE {where}")
        change(f"UPDATE {SHADOW} SET counter_value = NULL WHERE {where}")
    elif what == "empty":
        change(f"UPDATE pm_counter_data SET extra_field = '' WHERE {where}")
        change(f"UPDATE {SHADOW} SET extra_field = NULL WHERE {where}")
    else:
        change(f"{CHANGES.get(what, OTHER_OBJECT)} {where}")
    assert not (await found(database, ne_id=2)).equal
    async with open_compared(database) as sides:
        for side in sides:
            side.tables = cast("Tables", BrokenReads(side.tables, guard, instead))
        assert (await CounterComparison(*sides, CompareScope(ne_id=2)).run()).equal, "nobody would have noticed"
