"""Migrations where the server commits every definition by itself: they go on where they stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from mysql_handles import handle_on

from headrace.adapters.mysql.migrations import migrate_alone
from headrace.adapters.mysql.tables import MysqlTables
from headrace.core.errors import CallerError, OperatorError, SchemaMismatch
from headrace.core.table_statements import TableMigration, TablePart
from headrace.testing.rig.mariadb import MariaServer

SCRIPT = """
CREATE TABLE guest (name varchar(20) PRIMARY KEY); -- one; or two
INSERT INTO guest VALUES ('an; x'), ('binh');
ALTER TABLE guest ADD COLUMN age integer;
"""
GUESTS = TableMigration(1, "guests", (TablePart("", SCRIPT),))
MORE = "INSERT INTO guest (name) VALUES ('chi')"
BROKEN = "CREATE INDEX nothing ON guest (absent)"


@pytest.fixture
async def tables(mariadb_database: str) -> AsyncIterator[MysqlTables]:
    tables = handle_on(mariadb_database, lanes=1).tables
    yield tables
    tables.close()


@pytest.fixture
def database(mariadb_database: str) -> str:
    return mariadb_database.rpartition("/")[2]


def names(server: MariaServer, database: str) -> list[str]:
    return [name for (name,) in server.query("SELECT name FROM guest ORDER BY name", database)]


async def test_a_migration_goes_on_where_it_stopped(
    tables: MysqlTables, mariadb_server: MariaServer, database: str
) -> None:
    broken = TableMigration(2, "more", (TablePart("", MORE), TablePart("", BROKEN)))
    mended = TableMigration(2, "more", (TablePart("", MORE), TablePart("", "CREATE INDEX ages ON guest (age)")))
    with pytest.raises(SchemaMismatch, match="absent"):
        await tables.migrate("guests", [GUESTS, broken])
    assert names(mariadb_server, database) == ["an; x", "binh", "chi"]
    assert await tables.migrate("guests", [GUESTS, mended]) == ["more"]
    assert names(mariadb_server, database) == ["an; x", "binh", "chi"], "rows are put in once"
    assert await tables.migrate("guests", [GUESTS, mended]) == []


@pytest.mark.parametrize("part", [0, 2])
async def test_what_was_made_and_not_told_is_not_made_again(
    tables: MysqlTables, mariadb_server: MariaServer, database: str, part: int
) -> None:
    """The program died between a definition and its row."""
    await tables.migrate("guests", [GUESTS])
    mariadb_server.query(f"UPDATE headrace_table_migration SET is_done = FALSE WHERE part = {part}", database)
    assert await tables.migrate("guests", [GUESTS]) == ["guests"]
    assert names(mariadb_server, database) == ["an; x", "binh"]


async def test_a_table_of_somebody_else_is_not_taken_for_ours(
    tables: MysqlTables, mariadb_server: MariaServer, database: str
) -> None:
    mariadb_server.query("CREATE TABLE guest (whatever integer)", database)
    for _ in range(2):
        with pytest.raises(CallerError, match="already exists"):
            await tables.migrate("guests", [GUESTS])


async def test_several_programs_make_the_tables_once(mariadb_database: str, mariadb_server: MariaServer) -> None:
    several = [handle_on(mariadb_database, lanes=1).tables for _ in range(6)]
    made = await asyncio.gather(*(each.migrate("guests", [GUESTS]) for each in several))
    assert sorted(made) == [[]] * 5 + [["guests"]]
    assert names(mariadb_server, mariadb_database.rpartition("/")[2]) == ["an; x", "binh"]


async def test_a_user_who_may_not_create_uses_tables_that_are_there(
    tables: MysqlTables, mariadb_server: MariaServer, database: str, mariadb_database: str
) -> None:
    await tables.migrate("guests", [GUESTS])
    mariadb_server.query("CREATE OR REPLACE USER clerk@'127.0.0.1' IDENTIFIED BY 'clerk'")
    mariadb_server.query(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO clerk@'127.0.0.1'")
    clerk = handle_on(mariadb_database, lanes=1, user="clerk", password="clerk").tables
    assert await clerk.migrate("guests", [GUESTS]) == []
    with pytest.raises(OperatorError, match="forbids"):
        await clerk.migrate("guests", [GUESTS, TableMigration(2, "more", (TablePart("", "CREATE TABLE t (a int)"),))])
    mariadb_server.query("DROP USER clerk@'127.0.0.1'")


async def test_a_migration_takes_as_long_as_it_takes(tables: MysqlTables, mariadb_database: str) -> None:
    slow = TableMigration(1, "slow", (TablePart("", "CREATE TABLE late AS SELECT SLEEP(0.5) AS slept"),))
    hasty = handle_on(mariadb_database, answer_s=0.2).tables
    assert await asyncio.to_thread(migrate_alone, hasty._options, "slow", [slow]) == ["slow"]
