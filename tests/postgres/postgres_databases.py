"""Databases for tests by the hundred: made from a template that has the schema, used again, or emptied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import psycopg

from headrace.adapters.postgres import schema
from headrace.testing.fixtures import SharedServers
from headrace.testing.rig.postgres import PostgresServer

TEMPLATE = "headrace_template"
# Only a power cut could tell the difference, and databases come and go by the hundred here. A deadlock is looked for
# sooner than after a second.
HASTY = {"fsync": "off", "full_page_writes": "off", "track_functions": "all", "deadlock_timeout": "50ms"}
# For so few rows a tenth of the time of TRUNCATE, which makes new files for two dozen tables and their indexes.
EMPTY = """
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'headrace' AND tablename <> 'migration' LOOP
        EXECUTE format('DELETE FROM headrace.%I', name);
    END LOOP;
    FOR name IN SELECT sequencename FROM pg_sequences
                 WHERE schemaname = 'headrace' AND sequencename LIKE '%_id_seq' LOOP
        PERFORM setval(format('headrace.%I', name), 1, false);
    END LOOP;
END $$
"""
# Every change of a definition writes a row of a catalogue, under a transaction of its own.
SHAPE = """
SELECT array_agg(ROW(kind, number, newest)::text ORDER BY kind) FROM (
    SELECT 'migration' AS kind, count(*) AS number, max(xmin::text::bigint) AS newest FROM headrace.migration
    UNION ALL SELECT 'schema', count(*), max(xmin::text::bigint) FROM pg_namespace WHERE nspname NOT LIKE 'pg_%'
    UNION ALL SELECT 'relation', count(*), max(xmin::text::bigint)
                FROM pg_class WHERE relnamespace = 'headrace'::regnamespace
    UNION ALL SELECT 'column', count(*), max(a.xmin::text::bigint) FROM pg_attribute a
                JOIN pg_class c ON c.oid = attrelid WHERE relnamespace = 'headrace'::regnamespace
    UNION ALL SELECT 'function', count(*), max(xmin::text::bigint)
                FROM pg_proc WHERE pronamespace = 'headrace'::regnamespace
    UNION ALL SELECT 'constraint', count(*), max(xmin::text::bigint)
                FROM pg_constraint WHERE connamespace = 'headrace'::regnamespace
    UNION ALL SELECT 'trigger', count(*), max(t.xmin::text::bigint) FROM pg_trigger t
                JOIN pg_class c ON c.oid = tgrelid WHERE relnamespace = 'headrace'::regnamespace
    UNION ALL SELECT 'right', count(*), max(xmin::text::bigint) FROM pg_default_acl
    UNION ALL SELECT 'setting', count(*), max(s.xmin::text::bigint) FROM pg_db_role_setting s
                JOIN pg_database d ON d.oid = setdatabase WHERE datname = current_database()) found
"""
DISCONNECT = """
SELECT coalesce(bool_and(pg_terminate_backend(pid, 5000)), true)
  FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
# What a test made beside the schema.
DROP = """
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' LOOP
        EXECUTE format('DROP TABLE public.%I CASCADE', made.name);
    END LOOP;
    FOR made IN SELECT oid::regprocedure AS name FROM pg_proc WHERE pronamespace = 'public'::regnamespace LOOP
        EXECUTE format('DROP ROUTINE %s CASCADE', made.name);
    END LOOP;
END $$
"""


class ReusedDatabase:
    """A database for each test, and the same one again if the test before left nothing but rows and tables of its own.

    Making one takes ten times as long as cleaning one, and most tests change no definition of the schema.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._made = ExitStack()
        self._url = ""
        self._shape: object = None

    @contextmanager
    def lend(self) -> Iterator[str]:
        if not self._url:
            self._url = self._made.enter_context(self._server.database(TEMPLATE))
            with psycopg.connect(self._url, autocommit=True) as connection:
                self._shape = _answer(connection, SHAPE)
        try:
            yield self._url
        finally:
            if not self._is_clean():
                self.drop()

    def _is_clean(self) -> bool:
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                if not _answer(connection, DISCONNECT) or _answer(connection, SHAPE) != self._shape:
                    return False
                connection.execute(EMPTY)
                connection.execute(DROP)
                return True
        except psycopg.Error:
            return False

    def drop(self) -> None:
        self._url = ""
        self._made.close()


def _answer(connection: psycopg.Connection[Any], query: str) -> Any:
    found = connection.execute(query.encode()).fetchone()
    assert found is not None
    return found[0]


def hasty_server(shared: SharedServers, name: str) -> PostgresServer:
    """A server of the run that does not sync, with the template."""
    server = cast(PostgresServer, shared.start(name, name, HASTY))
    server.query(f"CREATE DATABASE {TEMPLATE}")
    schema.prepare(server.url_of(TEMPLATE))
    return server


def emptied(url: str) -> str:
    """For tests that leave nothing but rows: much quicker than a database of their own."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(EMPTY)
    return url
