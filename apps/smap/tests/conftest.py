"""Worlds for smap's tests: embedded in a directory, or on the real servers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import structlog
from smap_results import AT

from headrace.testing import HttpAnswer, HttpReceiver
from headrace.testing.fixtures import SharedServers
from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.rig.s3 import Bucket
from headrace_smap.database import Database, open_database
from headrace_smap.frame import FRAME
from headrace_smap.settings import SmapSettings

DISCONNECT = """
SELECT pg_terminate_backend(pid, 5000)
  FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
# For so few rows a tenth of the time of TRUNCATE, which makes new files for all tables and their indexes.
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


@pytest.fixture(scope="session")
def smap_tables(postgres_server: PostgresServer) -> Iterator[str]:
    """One database with the tables for the whole run: to make one for each test would take longer than most tests."""

    async def make(url: str) -> None:
        async with open_database(url):
            """Opening it has made them."""

    # In a thread: an async fixture that asks for this one has a loop running.
    with postgres_server.database() as url, ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(make(url))).result()
        yield url


@pytest.fixture
def smap_database(shared_servers: SharedServers, postgres_server: PostgresServer, smap_tables: str) -> str:
    """The URL of a PostgreSQL database with smap's tables and nothing in them. A test that breaks them, or looks at
    how they are made, takes `postgres_database`."""
    shared_servers.lend(postgres_server)
    with psycopg.connect(smap_tables, autocommit=True) as connection:
        connection.execute(DISCONNECT)
        connection.execute(EMPTY)
    return smap_tables


@pytest.fixture
def hook() -> Iterator[HttpReceiver]:
    """A receiver of webhooks and of messages of Zalo, which takes all of them."""
    with HttpReceiver(lambda _request: HttpAnswer(200, {"error": 0})) as receiver:
        yield receiver


@pytest.fixture
def embedded(tmp_path: Path) -> SmapSettings:
    """Nothing but a directory; platforms that nothing serves are simulated."""
    return FRAME.load({"PATH": os.environ["PATH"], "SMAP_HOME": str(tmp_path / "smap"), "SMAP_SIMULATED": "1"})


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, embedded: SmapSettings) -> AsyncIterator[Database]:
    """smap's tables in each store, and the project `p` in them."""
    settings = embedded
    if request.param == "postgres":
        settings = replace(embedded, pg_dsn=request.getfixturevalue("smap_database"))
    settings.home.mkdir(exist_ok=True)
    async with open_database(settings.engine_url) as opened:
        await opened.rows("truth_open", project="p", now=AT)
        yield opened


@pytest.fixture
def real_environment(
    tmp_path: Path, postgres_database: str, redis_database: str, rabbitmq_vhost: str, s3_bucket: Bucket
) -> dict[str, str]:
    """Variables that name RabbitMQ, Redis, S3 and PostgreSQL, each empty."""
    return {
        "PATH": os.environ["PATH"],
        "SMAP_HOME": str(tmp_path / "smap"),
        "SMAP_SIMULATED": "1",
        "SMAP_AMQP_URL": rabbitmq_vhost,
        "SMAP_REDIS_URL": redis_database,
        "SMAP_PG_DSN": postgres_database,
        "SMAP_S3_URL": s3_bucket.url,
        "AWS_ACCESS_KEY_ID": s3_bucket.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_bucket.secret_key,
        "AWS_REGION": s3_bucket.region,
    }


@pytest.fixture
def real(real_environment: dict[str, str]) -> SmapSettings:
    return FRAME.load(real_environment)
