"""`PostgresSink`: effects in tables of a PostgreSQL database, at most once per effect key.

The key, the check of the fence, the change and its answer are one transaction. Under READ COMMITTED a check alone
would prove nothing: the fence may be revoked between check and commit. So a write holds its fence by a shared lock
until it has committed, and a revocation takes the same lock for itself: when it returns, every write under that fence
has committed before it or will be refused. A holder that froze inside its transaction loses it after IDLE_S_MAX.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from headrace.adapters.postgres import foreign
from headrace.adapters.postgres.connections import Connection, connect, translate, where
from headrace.adapters.postgres.lanes import Lanes
from headrace.adapters.postgres.statements import statements as own_statements
from headrace.core.claims import Refused
from headrace.core.effects import CONDITIONAL, check_answer, check_key
from headrace.core.errors import CallerError, ClaimLost, Conflict
from headrace.ports.sink import Applied, Change, Effect, EffectView

Row = tuple[Any, ...]
LANES = 6
IDLE_S_MAX = 2.0
STATEMENT_S_MAX = 60.0
AFTER_ALL_KEYS = "\U0010ffff"


class PostgresSink:
    """A sink in one database. It is opened by its first use, and again by a use after it was closed.

    `tables` are statements that make the application's own tables if they are not there. Ours are made beside them, in
    the first schema of the search path.
    """

    def __init__(
        self, url: str, tables: str = "", statements: Mapping[str, str] | None = None, lanes: int = LANES
    ) -> None:
        self._url = url
        self._tables = tables
        self._statements = statements or own_statements()
        self._count = lanes
        self._opening = threading.Lock()
        self._lanes: Lanes | None = None

    @property
    def name(self) -> str:
        return where(self._url)

    @property
    def guarantee(self) -> str:
        return CONDITIONAL

    async def once(self, effect: Effect, change: Change) -> Applied:
        return await self._apply("once", effect, change)

    async def put(self, effect: Effect, change: Change) -> Applied:
        return await self._apply("put", effect, change)

    async def revoke(self, fences: Sequence[int]) -> None:
        # In order, so that two revocations never wait for each other.
        values = {"fences": sorted(set(fences))}

        def within(connection: Connection) -> None:
            with connection.transaction():
                self._run(connection, "fences_lock", values)
                self._run(connection, "fences_revoke", values)

        if fences:
            await (await self._opened()).write(within)

    async def effects(self, prefix: str, after: str, limit: int) -> Sequence[EffectView]:
        page = {"first": prefix, "last": prefix + AFTER_ALL_KEYS, "after": after, "limit": limit}
        lanes = await self._opened()
        rows = await lanes.read(lambda connection: self._run(connection, "effect_list", page))
        return [EffectView(*row) for row in rows]

    async def close(self) -> None:
        with self._opening:
            lanes, self._lanes = self._lanes, None
        if lanes is not None:
            await asyncio.to_thread(lanes.close)

    async def _apply(self, operation: str, effect: Effect, change: Change) -> Applied:
        check_key(effect.key)

        def within(connection: Connection) -> Applied | None:
            with connection.transaction():
                return self._within(connection, operation, effect, change)

        applied = await (await self._opened()).write(within)
        if applied is None:
            raise ClaimLost(f"{self.name} refused {effect.key}: its claim was lost", effect.fence)
        return applied

    def _within(self, connection: Connection, operation: str, effect: Effect, change: Change) -> Applied | None:
        """None: the fence is revoked. An answer and no error, because that refusal is counted and must be committed."""
        values = {"key": effect.key, "operation": operation, "fence": effect.fence}
        self._run(connection, "fence_share", values)
        if self._run(connection, "fence_revoked", values):
            self._run(connection, "effect_refused", values)
            return None
        if self._run(connection, f"effect_{operation}", values):
            answer = self._change(connection, effect, change)
            check_answer(len(answer.encode()))
            if answer:
                self._run(connection, "effect_answer", {**values, "answer": answer})
            return Applied(True, foreign.load_answer(connection, answer))
        standing = self._run(connection, "effect_refused", values)
        if not standing:
            raise Conflict(
                f"{effect.key} was not written by {operation} before", "once and put are never mixed on one key"
            )
        return Applied(False, foreign.load_answer(connection, standing[0][0]))

    def _change(self, connection: Connection, effect: Effect, change: Change) -> str:
        try:
            return foreign.dump_answer(foreign.execute(connection, change.statement, change.values))
        except psycopg.errors.QueryCanceled as error:
            # Whoever would wait until this heals might wait for ever: the next time it may take as long.
            raise CallerError(
                f"{self.name} gave up the change of {effect.key} after {STATEMENT_S_MAX:g} s: {error}"
            ) from error
        except psycopg.OperationalError:
            raise
        except (psycopg.Error, Refused, TypeError, ValueError, OverflowError) as error:
            raise CallerError(
                f"{self.name} refused the change of {effect.key}: {type(error).__name__}: {error}"
            ) from error

    def _run(self, connection: Connection, statement: str, values: Mapping[str, Any]) -> list[Row]:
        cursor = connection.execute(self._statements[statement].encode(), values)
        return cursor.fetchall() if cursor.description else []

    async def _opened(self) -> Lanes:
        opened = self._lanes
        return opened if opened is not None else await asyncio.to_thread(self._open)

    def _open(self) -> Lanes:
        with self._opening:
            lanes = self._lanes
            if lanes is None:
                self._create()
                lanes = self._lanes = Lanes(self._url, self._count, self._prepare)
            return lanes

    def _create(self) -> None:
        with connect(self._url) as connection:
            try:
                with connection.transaction():
                    for text in (self._statements["sink_begin"], self._statements["sink_tables"], self._tables):
                        if text.strip():
                            connection.execute(text.encode(), prepare=False)
            except psycopg.Error as error:
                raise translate(self._url, error, connection.broken, write=False) from error

    def _prepare(self, connection: Connection) -> None:
        limits = {"idle_ms": str(int(IDLE_S_MAX * 1_000)), "statement_ms": str(int(STATEMENT_S_MAX * 1_000))}
        self._run(connection, "sink_session", limits)
