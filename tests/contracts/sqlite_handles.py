"""A SQLite file that several handles share, as a contract asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from headrace.adapters.sqlite.store import SqliteStore
from headrace.testing.passage import ManualClock

HANDLES = 3


class InAFile:
    @pytest.fixture
    async def store(self, handles: Sequence[SqliteStore]) -> SqliteStore:
        return handles[0]

    @pytest.fixture
    async def handles(self, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Sequence[SqliteStore]]:
        stores = [await SqliteStore.open(str(tmp_path / "store.db"), clock=clock) for _ in range(HANDLES)]
        yield stores
        for store in stores:
            await store.close()
