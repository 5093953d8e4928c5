"""Worlds for pm's tests: tables of files on real databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pm_file_world import FileWorld, maria_world, sqlite_world
from pm_pipeline_world import PipelineServers

from headrace.testing.rig.ftp import FtpServer
from headrace.testing.rig.mariadb import MariaServer


@pytest.fixture(scope="module")
def pm_database(mariadb_server: MariaServer) -> Iterator[str]:
    """One for all tests of a module: a dozen tables take longer to make than most tests."""
    with mariadb_server.database() as url:
        yield url


@pytest.fixture(params=["mysql", "sqlite"])
async def file_world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FileWorld]:
    """Once on each database that pm may have its tables in."""
    if request.param == "sqlite":
        async with sqlite_world(tmp_path / "pm.db") as world:
            yield world
        return
    server, url = request.getfixturevalue("mariadb_server"), request.getfixturevalue("pm_database")
    async with maria_world(server, url) as world:
        yield world


@pytest.fixture
def pipeline_servers(
    mariadb_server: MariaServer, mariadb_database: str, redis_database: str, kafka_topic: str, ftp_site: FtpServer
) -> PipelineServers:
    """All that a pipeline needs, empty."""
    return PipelineServers(mariadb_server, mariadb_database, redis_database, kafka_topic, ftp_site)


@pytest.fixture(params=["mysql", "sqlite"])
def operator_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where tables are made, once on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'pm.db'}"
    return str(request.getfixturevalue("mariadb_database"))
