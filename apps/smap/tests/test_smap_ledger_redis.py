"""The ledger in Redis keeps its contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
from smap_ledger_strangers import WholeLedgerContract

from headrace_smap.ledger.redis_ledger import RedisLedger, open_redis_ledger


class TestRedisLedger(WholeLedgerContract):
    @pytest.fixture
    async def ledger(self, redis_database: str) -> AsyncIterator[RedisLedger]:
        async with open_redis_ledger(redis_database) as ledger:
            yield ledger

    @pytest.fixture
    async def handles(self, ledger: RedisLedger, redis_database: str) -> AsyncIterator[Sequence[RedisLedger]]:
        async with open_redis_ledger(redis_database) as another:
            yield [ledger, another]
