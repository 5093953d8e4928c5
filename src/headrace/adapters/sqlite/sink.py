"""`SqliteSink`: effects in a SQLite file of the application's own, at most once per effect key.

The key, the check of the fence, the change and its answer are one write transaction, and a file has one writer at a
time: so a write comes before the revocation of its fence as a whole, or is refused.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import apsw
import msgspec

from headrace.adapters.sqlite import guard
from headrace.adapters.sqlite.clock import MachineClock
from headrace.adapters.sqlite.connections import MEMORY, SURROUNDINGS, configure, plain, translated
from headrace.adapters.sqlite.migrations import APPLICATION_ID
from headrace.adapters.sqlite.recorded_statements import WRONG, check_statement
from headrace.adapters.sqlite.statements import load_statements
from headrace.adapters.sqlite.writer import ThreadedDatabase, take_turn
from headrace.core.effects import CONDITIONAL, check_answer, check_key
from headrace.core.errors import CallerError, ClaimLost, Conflict, UnsafeStore
from headrace.ports.seams import Clock
from headrace.ports.sink import Applied, Change, Effect, EffectView

Row = tuple[Any, ...]
OWN_TABLES = frozenset({"headrace_effect", "headrace_revoked"})
AFTER_ALL_KEYS = "\U0010ffff"


class SqliteSink:
    """A sink in one file. It is opened by its first use, and again by a use after it was closed.

    `tables` are statements that make the application's own tables if they are not there.
    """

    def __init__(
        self, path: str, tables: str = "", clock: Clock | None = None, statements: Mapping[str, str] | None = None
    ) -> None:
        self._path = path
        self._tables = tables
        self._clock = clock or MachineClock()
        self._statements = statements or load_statements()
        self._approved: set[str] = set()
        self._opening = threading.Lock()
        self._database: ThreadedDatabase | None = None

    @property
    def name(self) -> str:
        return f"sqlite:///{self._path}"

    @property
    def guarantee(self) -> str:
        return CONDITIONAL

    async def once(self, effect: Effect, change: Change) -> Applied:
        return await self._apply("once", effect, change)

    async def put(self, effect: Effect, change: Change) -> Applied:
        return await self._apply("put", effect, change)

    async def revoke(self, fences: Sequence[int]) -> None:
        def within(connection: apsw.Connection) -> None:
            for fence in fences:
                self._run(connection, "fence_revoke", fence=fence, now=self._clock.wall())

        if fences:
            await (await self._opened()).write(within)

    async def effects(self, prefix: str, after: str, limit: int) -> Sequence[EffectView]:
        page = {"first": prefix, "last": prefix + AFTER_ALL_KEYS, "after": after, "limit": limit}
        database = await self._opened()
        rows = await database.read(lambda connection: self._run(connection, "effect_list", **page))
        return [EffectView(*row) for row in rows]

    async def close(self) -> None:
        with self._opening:
            database, self._database = self._database, None
        if database is not None:
            await database.close()

    async def _apply(self, operation: str, effect: Effect, change: Change) -> Applied:
        check_key(effect.key)
        database = await self._opened()
        applied = await database.write(lambda connection: self._within(connection, operation, effect, change))
        if applied is None:
            raise ClaimLost(f"{self.name} refused {effect.key}: its claim was lost", effect.fence)
        return applied

    def _within(self, connection: apsw.Connection, operation: str, effect: Effect, change: Change) -> Applied | None:
        """None: the fence is revoked. An answer and no error, because that refusal is counted and must be committed."""
        key, fence = effect.key, effect.fence
        if self._run(connection, "fence_revoked", fence=fence):
            self._run(connection, "effect_refused", key=key, operation=operation)
            return None
        if self._run(connection, f"effect_{operation}", key=key, fence=fence, now=self._clock.wall()):
            rows = self._change(connection, effect, change)
            answer = msgspec.msgpack.encode(rows)
            check_answer(len(answer))
            self._run(connection, "effect_answer", key=key, answer=answer)
            return Applied(True, rows)
        standing = self._run(connection, "effect_refused", key=key, operation=operation)
        if not standing:
            raise Conflict(f"{key} was not written by {operation} before", "once and put are never mixed on one key")
        return Applied(False, _rows(standing[0][0]))

    def _change(self, connection: apsw.Connection, effect: Effect, change: Change) -> tuple[Row, ...]:
        try:
            check_statement(connection, change.statement, self._approved, OWN_TABLES)
            values: Any = change.values
            return tuple(connection.execute(change.statement, values).fetchall())
        except SURROUNDINGS:
            raise
        except WRONG as error:
            raise CallerError(
                f"{self.name} refused the change of {effect.key}: {type(error).__name__}: {error}"
            ) from error

    def _run(self, connection: apsw.Connection, statement: str, /, **values: object) -> list[Row]:
        bindings: Any = values
        return connection.execute(self._statements[statement], bindings).fetchall()

    async def _opened(self) -> ThreadedDatabase:
        opened = self._database
        return opened if opened is not None else await asyncio.to_thread(self._open)

    def _open(self) -> ThreadedDatabase:
        with self._opening:
            database = self._database
            if database is None:
                database = ThreadedDatabase(self._path, self._clock, self._connect, hinted=False)
                self._database = database
            return database

    def _connect(self, path: str, create: bool) -> apsw.Connection:
        if path != MEMORY:
            guard.check_place(path)
        try:
            with _one_at_a_time(path, self._clock):
                connection = plain(path)
                _check_owner(connection, path)
                configure(connection, path)
                if create:
                    self._create(connection)
        except apsw.Error as error:
            raise translated(error, path) from error
        return connection

    def _create(self, connection: apsw.Connection) -> None:
        for text in ("BEGIN IMMEDIATE", self._statements["sink_tables"], self._tables, "COMMIT"):
            connection.execute(text).fetchall()


def _check_owner(connection: apsw.Connection, path: str) -> None:
    if connection.pragma("application_id") == APPLICATION_ID:
        connection.close()
        raise UnsafeStore(
            f"{path} is a headrace store, and a sink in it would need a second transaction for each effect",
            "record statements for it instead: context.sql(…); or name a file of its own",
        )


@contextmanager
def _one_at_a_time(path: str, clock: Clock) -> Iterator[None]:
    """Two that open an empty file at once would fight over its journal mode."""
    if path == MEMORY:
        yield
        return
    handle = os.open(f"{path}-writer", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        take_turn(handle, clock)
        yield
    finally:
        os.close(handle)


def _rows(answer: bytes | None) -> tuple[Row, ...]:
    return tuple(tuple(row) for row in msgspec.msgpack.decode(answer)) if answer else ()
