"""Worlds for pm's tests: tables of files on real databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from pm_file_world import FileWorld, maria_world

from headrace.testing.rig.mariadb import MariaServer


@pytest.fixture(scope="module")
def pm_database(mariadb_server: MariaServer) -> Iterator[str]:
    """One for all tests of a module: a dozen tables take longer to make than most tests."""
    with mariadb_server.database() as url:
        yield url


@pytest.fixture
async def file_world(mariadb_server: MariaServer, pm_database: str) -> AsyncIterator[FileWorld]:
    async with maria_world(mariadb_server, pm_database) as world:
        yield world
