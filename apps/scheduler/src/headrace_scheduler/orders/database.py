"""The database of orders: named statements in one unit of work, on PostgreSQL or in a SQLite file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType

import headrace
from headrace.tables import REQUEST_KEYS, Statements
from headrace_scheduler.orders.settings import OrdersSettings
from headrace_scheduler.parts import make_home

STATEMENTS = Statements("headrace_scheduler.orders")
TABLES = (STATEMENTS, REQUEST_KEYS)


class OrdersDatabase:
    """Opened when it is first used, and then its tables are made: a worker starts, and runs other jobs, while the
    database is away."""

    def __init__(self, settings: OrdersSettings, tables: Sequence[Statements] = TABLES) -> None:
        self._settings, self._tables = settings, tuple(tables)
        self._opening, self._opened = asyncio.Lock(), AsyncExitStack()
        self._engine: headrace.Engine | None = None

    async def engine(self) -> headrace.Engine:
        async with self._opening:
            if self._engine is None:
                if not self._settings.pg_dsn and self._settings.home is not None:
                    make_home(self._settings.home)
                connecting = headrace.connect(self._settings.engine_url, tables=self._tables)
                self._engine = await self._opened.enter_async_context(connecting)
            return self._engine

    async def __aenter__(self) -> OrdersDatabase:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.aclose()
