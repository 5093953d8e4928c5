"""The PostgreSQL store keeps every contract, with several handles on the same database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from headrace.adapters.postgres import PostgresStore
from headrace.ports.backend import Backend
from headrace.testing.contracts import InspectorContract, OperationsContract, StoreContract
from headrace.testing.passage import Passage, RealPassage

HANDLES = 3


class TestPostgresStore(StoreContract, OperationsContract, InspectorContract):
    @pytest.fixture
    def passage(self) -> Passage:
        return RealPassage()

    @pytest.fixture
    async def store(self, handles: Sequence[Backend]) -> Backend:
        return handles[0]

    @pytest.fixture
    async def handles(self, emptied_url: str) -> AsyncIterator[Sequence[Backend]]:
        stores = [await PostgresStore.open(emptied_url, lanes=2) for _ in range(HANDLES)]
        yield stores
        for store in stores:
            await store.close()
