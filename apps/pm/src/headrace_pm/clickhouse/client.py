"""ClickHouse over HTTP: the client of its makers, in threads, with errors that say who must act.

One request at a time: a consumer has one block in hand, and whoever looks beside it can wait for a moment.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from headrace_pm.clickhouse.errors import meaning
from headrace_pm.clickhouse.settings import ClickHouseSettings

CONNECT_S_MAX = 5
_SILENT = logging.NullHandler()
T = TypeVar("T")


class ClickHouse:
    """One database. It connects with its first request, and again after every failure."""

    def __init__(self, settings: ClickHouseSettings) -> None:
        self._settings = settings
        self._one_request = threading.Lock()
        self._client: Client | None = None
        self.database = settings.clickhouse_database

    async def answers(self) -> None:
        await self.rows("SELECT 1")

    async def command(self, statement: str) -> None:
        await self._ask(lambda client: client.command(statement))

    async def rows(self, statement: str, values: Mapping[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        found = await self._ask(lambda client: client.query(statement, parameters=dict(values or {})))
        rows: Sequence[Sequence[Any]] = found.result_rows
        return rows

    async def insert_block(self, table: str, form: str, block: bytes, token: str) -> None:
        """A block in one of ClickHouse's formats. One with the same token is not written again."""
        settings = {"insert_deduplication_token": token, "insert_deduplicate": 1}
        await self._ask(lambda client: client.raw_insert(table, insert_block=block, settings=settings, fmt=form))

    async def insert_rows(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        await self._ask(lambda client: client.insert(table, rows, column_names=list(columns)))

    async def close(self) -> None:
        await asyncio.to_thread(self._forget)

    async def _ask(self, work: Callable[[Client], T]) -> T:
        return await asyncio.to_thread(self._asked, work)

    def _asked(self, work: Callable[[Client], T]) -> T:
        with self._one_request:
            try:
                if self._client is None:
                    self._client = self._connected()
                return work(self._client)
            except ClickHouseError as error:
                known = meaning(error)
                if known.heals:
                    self._forget()
                raise known from None

    def _connected(self) -> Client:
        address = self._settings.clickhouse
        # What it would log is in the errors that it raises.
        logging.getLogger("clickhouse_connect").addHandler(_SILENT)
        return clickhouse_connect.get_client(
            host=address.hostname or "",
            port=address.port or (8443 if address.scheme == "https" else 8123),
            username=address.username or "default",
            password=address.password or "",
            secure=address.scheme == "https",
            database=self.database,
            compress=False,
            connect_timeout=CONNECT_S_MAX,
            send_receive_timeout=self._settings.clickhouse_timeout_s,
            autogenerate_session_id=False,
            query_retries=0,
        )

    def _forget(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
