"""The database in PostgreSQL 15 or later: a few connections, and one round trip for a transaction.

A transaction is queued whole, from BEGIN to COMMIT, and its answers are read together. If the connection breaks, nobody
knows whether it was committed: it is sent again on a new one, where it waits for the locks of the first if that still
runs, and finds its rows if it does not. A line that hangs is cut by a clock of ours, because a network that swallows
packets tells nobody.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from typing import Any, LiteralString, TypeVar

import psycopg

from headrace.errors import CallerError, Unreachable
from headrace.tables import driver_text
from headrace_smap.database import Row, Step, creating, statements
from headrace_smap.database_postgres_values import adapt, is_lost, meaning

T = TypeVar("T")
Connection = psycopg.AsyncConnection[Row]
Work = Callable[[Connection], Awaitable[T]]

CONNECTIONS_MAX = 8
CONNECT_S_MAX = 10
ANSWER_S_MAX = 60.0
TRIES_MAX = 6
PAUSE_S = 0.02
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
LOOK_FOR = "SELECT name FROM unnest(%s::text[]) AS thing(name) WHERE to_regclass(name) IS NOT NULL"
# A deadlock or a serialisation failure: the same transaction again is right.
AGAIN = ("40P01", "40001")
LINE: dict[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


@cache
def statement(name: str) -> LiteralString:
    """A statement by its name, in psycopg's notation."""
    return driver_text(statements("postgres")[name])


class PostgresDatabase:
    """See `Database`. Connections are made when they are needed, and kept."""

    dialect = "postgres"

    def __init__(self, dsn: str, answer_s_max: float = ANSWER_S_MAX) -> None:
        try:
            given = psycopg.conninfo.conninfo_to_dict(dsn)
        except psycopg.ProgrammingError as error:
            # The text itself may hold a password.
            hint = "SMAP_PG_DSN=postgresql://user@host/database"
            raise CallerError("SMAP_PG_DSN is not a connection string", hint) from error
        self._line = {**LINE, **{name: given[name] for name in LINE if name in given}}
        self._line["connect_timeout"] = given.get("connect_timeout") or CONNECT_S_MAX
        self._dsn, self._answer_s_max = dsn, answer_s_max
        self._idle: list[Connection] = []
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)
        self._running: set[asyncio.Task[Any]] = set()

    async def create(self) -> None:
        await self._run(_create)

    async def rows(self, name: str, **values: object) -> list[Row]:
        return (await self.transact((name, values)))[0]

    async def transact(self, *steps: Step) -> list[list[Row]]:
        async def work(connection: Connection) -> list[list[Row]]:
            return await _transact(connection, steps)

        return await self._run(work)

    async def close(self) -> None:
        await asyncio.gather(*self._running, return_exceptions=True)
        while self._idle:
            await self._idle.pop().close()

    async def _run(self, work: Work[T]) -> T:
        """A caller that is cancelled leaves; its transaction comes to its end, and the line stays whole."""
        task = asyncio.ensure_future(self._tried(work))
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()

    async def _tried(self, work: Work[T]) -> T:
        for attempt in range(TRIES_MAX):
            try:
                async with self._room:
                    return await self._once(work)
            except psycopg.Error as error:
                if attempt == TRIES_MAX - 1 or not (is_lost(error) or error.sqlstate in AGAIN):
                    raise meaning(error) from error
            # Two that met in a deadlock must not meet again.
            await asyncio.sleep(random.random() * PAUSE_S * 2**attempt)
        raise AssertionError("the last try answers or raises")

    async def _once(self, work: Work[T]) -> T:
        connection = self._idle.pop() if self._idle else await self._connect()
        cut = False

        def hang_up() -> None:
            nonlocal cut
            cut = True
            _hang_up(connection)

        clock = asyncio.get_running_loop().call_later(self._answer_s_max, hang_up)
        try:
            answer = await work(connection)
        except psycopg.Error as error:
            await self._put_right(connection, error)
            if cut:
                limit = f"{self._answer_s_max:g} s"
                raise Unreachable(f"PostgreSQL did not answer within {limit}", "is it overloaded or frozen?") from error
            raise
        except BaseException:
            connection.pgconn.finish()
            raise
        finally:
            clock.cancel()
        self._idle.append(connection)
        return answer

    async def _put_right(self, connection: Connection, error: psycopg.Error) -> None:
        """Keep a connection that only refused a statement; if one is lost, so are probably the others."""
        if not is_lost(error) and not connection.closed:
            with suppress(psycopg.Error):
                if connection.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
                    await connection.execute("ROLLBACK")
                self._idle.append(connection)
                return
        lost, self._idle = [connection, *self._idle], []
        for one in lost:
            await one.close()

    async def _connect(self) -> Connection:
        try:
            connection = await psycopg.AsyncConnection.connect(
                self._dsn,
                autocommit=True,
                prepare_threshold=0,
                client_encoding="utf8",
                fallback_application_name="headrace smap",
                **self._line,
            )
            adapt(connection)
            await connection.execute("SET TIME ZONE 'UTC'", prepare=False)
        except psycopg.Error as error:
            raise meaning(error) from error
        return connection


async def _transact(connection: Connection, steps: tuple[Step, ...]) -> list[list[Row]]:
    if len(steps) == 1:
        ((name, values),) = steps
        cursors = [await connection.execute(statement(name), values)]
    else:
        async with connection.pipeline():
            await connection.execute(BEGIN)
            cursors = [await connection.execute(statement(name), values) for name, values in steps]
            await connection.execute("COMMIT")
    return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]


async def _create(connection: Connection) -> None:
    things = creating("postgres")
    found = await connection.execute(LOOK_FOR, [tuple(things)])
    there = {name for (name,) in await found.fetchall()}
    missing = [text for name, text in things.items() if name not in there]
    if missing:
        async with connection.transaction():
            # IF NOT EXISTS alone does not keep two from making the same thing at once.
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext('smap_create'))")
            for text in missing:
                await connection.execute(text.encode(), prepare=False)


def _hang_up(connection: Connection) -> None:
    """Whoever waits on the line finds it closed."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
