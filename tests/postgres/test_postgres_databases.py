"""The database of a test: used again if nothing but rows and tables beside the schema are left in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import psycopg
import pytest
from postgres_databases import ReusedDatabase

from headrace.testing.rig.postgres import PostgresServer

MADE = "SELECT to_regclass('mine'), to_regclass('seen'), to_regproc('twice')"
ROW = "SELECT headrace.add_events(ARRAY['e'], ARRAY['a.b'], ARRAY['k'], ARRAY[''::bytea], ARRAY['{}'])"


@pytest.fixture
def reused(postgres: PostgresServer) -> Iterator[ReusedDatabase]:
    made = ReusedDatabase(postgres)
    yield made
    made.drop()


def test_rows_and_tables_and_sessions_are_gone_the_next_time(reused: ReusedDatabase) -> None:
    with ExitStack() as connections, reused.lend() as url:
        left_open = connections.enter_context(closing(psycopg.connect(url)))
        left_open.execute("CREATE TABLE mine (number integer)")
        left_open.execute("CREATE VIEW seen AS SELECT number FROM mine")
        left_open.execute("CREATE FUNCTION twice(number integer) RETURNS integer LANGUAGE sql RETURN 2 * number")
        left_open.execute(ROW)
        left_open.commit()
        left_open.execute("SELECT pg_advisory_lock(1)")
    with reused.lend() as again, psycopg.connect(again) as connection:
        assert again == url
        assert connection.execute(MADE).fetchone() == (None, None, None)
        assert connection.execute("SELECT count(*) FROM headrace.event").fetchone() == (0,)
        assert connection.execute("SELECT pg_try_advisory_lock(1)").fetchone() == (True,)


@pytest.mark.parametrize(
    "change",
    [
        "CREATE OR REPLACE FUNCTION headrace.mint() RETURNS bigint LANGUAGE sql RETURN 1",
        "DROP INDEX headrace.event_key",
        "ALTER TABLE headrace.job ADD COLUMN further integer",
        "ALTER TABLE headrace.job ALTER COLUMN priority SET DEFAULT 7",
        "REVOKE ALL ON headrace.job FROM current_user",
        "CREATE SCHEMA further",
        "UPDATE headrace.migration SET name = 'other'",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem TO 1024', current_database()); END $$",
    ],
)
def test_a_database_with_another_schema_is_not_used_again(reused: ReusedDatabase, change: str) -> None:
    with reused.lend() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(change.encode())
    with reused.lend() as again:
        assert again != url
