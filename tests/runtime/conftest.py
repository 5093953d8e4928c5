"""A real store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from runtime_bench import Bench

from headrace.adapters.sqlite import SqliteStore


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(":memory:")
    yield store
    await store.close()


@pytest.fixture
def bench(store: SqliteStore) -> Bench:
    return Bench(store)
