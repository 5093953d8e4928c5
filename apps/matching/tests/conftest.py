"""Worlds for the tests of matching: embedded in a directory, or on real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import structlog
from matching_world import MatchingWorld, embedded_settings, opened_world

import headrace
from headrace.testing.fixtures import SharedServers
from headrace.testing.rig.postgres import PostgresServer
from headrace_matching.parts import TABLES
from headrace_matching.settings import MatchingSettings

DISCONNECT = """
SELECT pg_terminate_backend(pid, 5000)
  FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
EMPTY = """
DO $$
DECLARE
    made record;
BEGIN
    FOR made IN SELECT schemaname, tablename FROM pg_tables
                 WHERE schemaname IN ('headrace', 'public') AND tablename NOT LIKE '%migration' LOOP
        EXECUTE format('DELETE FROM %I.%I', made.schemaname, made.tablename);
    END LOOP;
END $$
"""


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """A command that runs in this process may change what is logged."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def embedded(tmp_path: Path) -> MatchingSettings:
    """Nothing but a directory."""
    return embedded_settings(tmp_path / "home")


@pytest.fixture(scope="session")
def matching_tables(postgres_server: PostgresServer) -> Iterator[str]:
    """One database with the tables for the whole run: to make one for each test would take longer than most tests."""

    async def make(url: str) -> None:
        async with headrace.connect(url, tables=TABLES):
            """Connecting has made them."""

    # In a thread: an async fixture that asks for this one has a loop running.
    with postgres_server.database() as url, ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(make(url))).result()
        yield url


@pytest.fixture
def matching_database(shared_servers: SharedServers, postgres_server: PostgresServer, matching_tables: str) -> str:
    """The URL of a PostgreSQL database with the tables and nothing in them."""
    shared_servers.lend(postgres_server)
    with psycopg.connect(matching_tables, autocommit=True) as connection:
        connection.execute(DISCONNECT)
        connection.execute(EMPTY)
    return matching_tables


@pytest.fixture
def servers(tmp_path: Path, matching_database: str, rabbitmq_vhost: str) -> MatchingSettings:
    """PostgreSQL and RabbitMQ, each empty."""
    named = {"MATCHING_PG_DSN": matching_database, "MATCHING_AMQP_URL": rabbitmq_vhost}
    return embedded_settings(tmp_path / "home", **named)


@pytest.fixture(params=["embedded", "servers"])
def settings(request: pytest.FixtureRequest) -> MatchingSettings:
    """Each of both."""
    found: MatchingSettings = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def embedded_world(embedded: MatchingSettings) -> AsyncIterator[MatchingWorld]:
    """For what does not depend on servers."""
    async with opened_world(embedded) as opened:
        yield opened


@pytest.fixture
async def world(settings: MatchingSettings) -> AsyncIterator[MatchingWorld]:
    """The Main API on SQLite and the bus in it, and on PostgreSQL and RabbitMQ."""
    async with opened_world(settings) as opened:
        yield opened
