"""Keys of repeated requests in both databases, against the contract of the kit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from smap_office import Calendar

from headrace.testing.contracts.idempotency import FIRST, MADE, SECOND, IdempotencyContract
from headrace.testing.passage import RealPassage
from headrace_smap.database import open_database
from headrace_smap.project.keys import DatabaseKeys
from headrace_smap.settings import Settings


class CalendarPassage:
    hold_s = brief_s = 30.0

    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar

    async def past(self, seconds: float) -> None:
        self._calendar.advance(seconds=seconds + 1)


class TestKeysInSqlite(IdempotencyContract):
    @pytest.fixture
    def calendar(self) -> Calendar:
        return Calendar()

    @pytest.fixture
    def passage(self, calendar: Calendar) -> CalendarPassage:
        return CalendarPassage(calendar)

    @pytest.fixture
    async def keys(self, embedded: Settings, calendar: Calendar) -> AsyncIterator[DatabaseKeys]:
        embedded.home.mkdir()
        async with open_database(embedded.engine_url) as database:
            yield DatabaseKeys(database, calendar)

    async def test_old_keys_are_forgotten(self, keys: DatabaseKeys, calendar: Calendar) -> None:
        await keys.begin(FIRST)
        await keys.finish(FIRST, MADE)
        calendar.advance(hours=25)
        await keys.begin(replace(FIRST, key="young"))
        await keys._database.rows("key_forget", before=calendar.now - timedelta(days=1))
        assert (await keys.begin(SECOND)).state == "granted"
        assert (await keys.begin(replace(SECOND, key="young"))).state == "in_flight"
        assert await keys.finish(replace(FIRST, key="gone"), MADE) == MADE


class TestKeysInPostgres(IdempotencyContract):
    @pytest.fixture
    def passage(self) -> RealPassage:
        return RealPassage(0.2)

    @pytest.fixture
    async def keys(self, postgres_database: str) -> AsyncIterator[DatabaseKeys]:
        async with open_database(postgres_database) as database:
            yield DatabaseKeys(database)
