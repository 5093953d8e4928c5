"""Databases for tests by the hundred: made from a template that has the schema, or emptied."""

from __future__ import annotations

from typing import cast

import psycopg

from headrace.adapters.postgres import schema
from headrace.testing.fixtures import SharedServers
from headrace.testing.rig.postgres import PostgresServer

TEMPLATE = "headrace_template"
# Only a power cut could tell the difference, and databases come and go by the hundred here.
HASTY = {"fsync": "off", "full_page_writes": "off", "track_functions": "all"}
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
