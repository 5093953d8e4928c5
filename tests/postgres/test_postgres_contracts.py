"""The PostgreSQL store keeps every contract, with several handles on the same database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

import pytest
from postgres_databases import TEMPLATE, emptied

from headrace.adapters.postgres.store import PostgresStore
from headrace.ports.backend import Backend
from headrace.testing.contracts import InspectorContract, OperationsContract, StoreContract
from headrace.testing.rig.postgres import PostgresServer

HANDLES = 3


class OpenHandles:
    @pytest.fixture(scope="class")
    @classmethod
    def database(cls, postgres: PostgresServer) -> Iterator[str]:
        with postgres.database(TEMPLATE) as url:
            yield url

    @pytest.fixture
    async def store(self, handles: Sequence[Backend]) -> Backend:
        return handles[0]

    @pytest.fixture
    async def handles(self, database: str) -> AsyncIterator[Sequence[Backend]]:
        emptied(database)
        stores = [await PostgresStore.open(database, lanes=2) for _ in range(HANDLES)]
        yield stores
        for store in stores:
            await store.close()


class TestPostgresStore(OpenHandles, StoreContract, OperationsContract, InspectorContract):
    pass
