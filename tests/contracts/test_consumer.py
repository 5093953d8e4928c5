"""The consumer keeps its contract on a bus in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace.adapters.sqlite.store import SqliteStore
from headrace.ports import Inbox, StoreBus
from headrace.testing.contracts import ConsumerContract
from headrace.testing.passage import ManualClock


class TestConsumerInMemory(ConsumerContract):
    @pytest.fixture
    async def store(self, clock: ManualClock) -> AsyncIterator[SqliteStore]:
        store = await SqliteStore.open(":memory:", clock=clock)
        yield store
        await store.close()

    @pytest.fixture
    def bus(self, store: SqliteStore) -> StoreBus:
        return store.bus

    @pytest.fixture
    def inbox(self, store: SqliteStore) -> Inbox:
        return store.inbox
