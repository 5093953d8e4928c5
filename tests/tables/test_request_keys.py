"""Requests with an Idempotency-Key are kept in the store, in a SQLite file and in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import headrace
from headrace.tables import REQUEST_KEYS, RequestKeys
from headrace.testing.contracts.idempotency import FIRST, MADE, SECOND, IdempotencyContract
from headrace.testing.passage import ManualClock, ManualPassage, RealPassage


class TestKeysInSqlite(IdempotencyContract):
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def passage(self, clock: ManualClock) -> ManualPassage:
        return ManualPassage(clock)

    @pytest.fixture
    async def keys(self, tmp_path: Path, clock: ManualClock) -> AsyncIterator[RequestKeys]:
        async with headrace.connect(f"sqlite:///{tmp_path}/store.db", tables=REQUEST_KEYS) as engine:
            yield RequestKeys(engine, lambda: datetime.fromtimestamp(clock.wall(), UTC))

    async def test_old_keys_are_forgotten(self, keys: RequestKeys, clock: ManualClock) -> None:
        await keys.begin(FIRST)
        await keys.finish(FIRST, MADE)
        clock.advance(25 * 3_600)
        await keys.begin(replace(FIRST, key="young"))
        await keys.forget(timedelta(days=1))
        assert (await keys.begin(SECOND)).state == "granted"
        assert (await keys.begin(replace(SECOND, key="young"))).state == "in_flight"
        assert await keys.finish(replace(FIRST, key="gone"), MADE) == MADE


class TestKeysInPostgres(IdempotencyContract):
    @pytest.fixture
    def passage(self) -> RealPassage:
        return RealPassage(0.2)

    @pytest.fixture
    async def keys(self, postgres_database: str) -> AsyncIterator[RequestKeys]:
        async with headrace.connect(postgres_database, tables=REQUEST_KEYS) as engine:
            yield RequestKeys(engine)


async def test_two_packages_may_not_bring_the_same_name() -> None:
    with pytest.raises(headrace.CallerError, match="another package has one too"):
        async with headrace.connect("sqlite:///:memory:", tables=(REQUEST_KEYS, REQUEST_KEYS)):
            pass
