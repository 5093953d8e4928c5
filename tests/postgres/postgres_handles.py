"""Several handles on one database, which all tests of a class share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from postgres_databases import TEMPLATE, emptied

from headrace.adapters.postgres.store import PostgresStore
from headrace.ports.parts import Parts
from headrace.testing.rig.postgres import PostgresServer

HANDLES = 3


class SharedHandles:
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, postgres: PostgresServer) -> Iterator[str]:
        with postgres.database(TEMPLATE) as url:
            yield url

    @pytest.fixture(scope="class")
    @classmethod
    def open_stores(cls, database: str) -> Iterator[Sequence[Parts]]:
        """Making a database takes a second; emptying one does not."""
        stores = [PostgresStore(database) for _ in range(HANDLES)]
        yield stores
        for store in stores:
            asyncio.run(store.close())

    @pytest.fixture
    def store(self, handles: Sequence[Parts]) -> Parts:
        return handles[0]

    @pytest.fixture
    def handles(self, database: str, open_stores: Sequence[Parts]) -> Sequence[Parts]:
        emptied(database)
        return open_stores
