"""A real store in memory."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator

import pytest
from runtime_bench import Bench, Heard

from headrace.adapters.sqlite.store import SqliteStore


@pytest.fixture
async def store() -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(":memory:")
    yield store
    await store.close()


@pytest.fixture
def bench(store: SqliteStore) -> Bench:
    return Bench(store)


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, logger = Heard(), logging.getLogger("headrace")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
