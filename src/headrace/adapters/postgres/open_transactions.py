"""Open transactions on PostgreSQL: the handler's statements first, then the settlement, then COMMIT, on one line.

While the handler runs, the transaction holds only what the handler locks. A worker that is lost loses the line, and the
server rolls back; one that froze loses it when it has been silent for longer than its handler may take. From the
settlement to COMMIT the claim is locked, and then two seconds of silence are enough.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import pq

from headrace.adapters.postgres.calls import Row, rows
from headrace.adapters.postgres.connections import AsyncConnection, Connection, connect_async, is_broken, translate
from headrace.adapters.postgres.lanes import Lanes
from headrace.adapters.postgres.loans import Lent, LentAsync, ended, lend
from headrace.adapters.postgres.settlements import values_of
from headrace.adapters.postgres.statements import statements
from headrace.adapters.postgres.stops import job_to_stop
from headrace.core.claims import Settled, Settlement
from headrace.core.errors import CallerError, HeadraceError, Unreachable
from headrace.ports.transactions import NOT_APPLIED, OPEN_TRANSACTIONS_MAX, Terms

MARGIN_S = 5.0
Ring = Callable[[bool], None]
Status = pq.TransactionStatus


class PostgresTransactions:
    """`ports.transactions.OpenTransactions` over a few lines of its own, opened when they are needed and kept."""

    def __init__(self, url: str, lanes: Lanes, ring: Ring) -> None:
        self.url, self.ring = url, ring
        self._lanes = lanes
        self._idle: list[AsyncConnection] = []
        self._room = asyncio.Semaphore(OPEN_TRANSACTIONS_MAX)
        self._marks = itertools.count(1)
        self._closed = False

    async def begin(self, terms: Terms) -> PostgresTransaction:
        if self._closed:
            raise HeadraceError("this store handle is closed", "open another one")
        await self._room.acquire()
        try:
            return await self._begin(terms, str(next(self._marks)))
        except BaseException:
            self._room.release()
            raise

    async def _begin(self, terms: Terms, mark: str) -> PostgresTransaction:
        alone_ms = int((terms.timeout_s + MARGIN_S) * 1_000)
        fences = ",".join(map(str, terms.fences))
        text = statements()["open_begin"].format(mark=mark, alone_ms=alone_ms, fences=fences)
        while True:
            kept = bool(self._idle)
            own = self._idle.pop() if kept else await connect_async(self.url)
            try:
                await own.execute(text.encode(), prepare=False)
                return PostgresTransaction(self, own, lend(own.pgconn, terms.awaits), mark)
            except psycopg.Error as error:
                broken = is_broken(own, error)
                own.pgconn.finish()
                # A line that broke while nobody used it says nothing about the server.
                if not (kept and broken):
                    raise translate(self.url, error, broken, write=False) from error
            except BaseException:
                own.pgconn.finish()
                raise

    async def resolve(self, settlements: Sequence[Settlement]) -> list[Settled]:
        def look(connection: Connection) -> list[Settled]:
            with connection.transaction():
                rows(connection, "lock_claims", ([settlement.fence for settlement in settlements],))
                return [_standing(connection, settlement) for settlement in settlements]

        return await self._lanes.read(look)

    async def revoke(self, fences: Sequence[int]) -> None:
        def end(connection: Connection) -> None:
            # Who may not end another's session is made to wait until the server does it.
            with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
                rows(connection, "open_revoke", (list(fences),))

        if fences:
            await self._lanes.write(end)

    def keep(self, own: AsyncConnection) -> None:
        """A transaction has ended: its line is for the next one, if it is as it should be."""
        if not self._closed and not own.closed and own.pgconn.transaction_status == Status.IDLE:
            self._idle.append(own)
        else:
            own.pgconn.finish()
        self._room.release()

    def gone(self) -> None:
        """A transaction has ended with its line."""
        self._room.release()

    def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        for own in idle:
            own.pgconn.finish()


def _standing(connection: Connection, settlement: Settlement) -> Settled:
    found = rows(connection, "refusal", (settlement.step, settlement.fence))
    reason = found[0][0] if found else "lost"
    return Settled(settlement.fence, reason == "", NOT_APPLIED if reason is None else reason)


class PostgresTransaction:
    """`ports.transactions.OpenTransaction` on one line."""

    def __init__(self, home: PostgresTransactions, own: AsyncConnection, lent: LentAsync | Lent, mark: str) -> None:
        self._home, self._own, self._lent, self._mark = home, own, lent, mark
        self._over = False

    @property
    def connection(self) -> LentAsync | Lent:
        return self._lent

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        try:
            self._take_back()
            checked = await self._own.execute(statements()["open_check"].encode(), prepare=False)
            if await checked.fetchone() != (self._mark,):
                raise ended()
            reasons, rang = await self._settled(settlements)
        except psycopg.Error as error:
            translated = self._translated(error, write=False)
            await self._roll_back()
            raise translated from error
        except Exception:
            await self._roll_back()
            raise
        except BaseException:
            self.cut()
            raise
        if any(reasons):
            await self._roll_back()
        else:
            await self._commit()
            self._home.ring(rang)
        return [Settled(s.fence, not reason, reason) for s, reason in zip(settlements, reasons, strict=True)]

    async def _settled(self, settlements: Sequence[Settlement]) -> Row:
        """Settle after the savepoint; if jobs must stop with it, go back there and take their locks first."""
        jobs: list[str] = []
        while True:
            try:
                if jobs:
                    await self._own.execute(b"ROLLBACK TO settling")
                    await self._rows("prepare_stops", (jobs, [settlement.fence for settlement in settlements]))
                return (await self._rows("settle", values_of(settlements)))[0]
            except psycopg.Error as error:
                jobs.append(job_to_stop(error))

    async def _commit(self) -> None:
        """Once this has been sent, an error of the line says nothing about the transaction."""
        try:
            answer = await self._own.execute(b"COMMIT")
        except psycopg.Error as error:
            translated = self._translated(error, write=True)
            self._end()
            raise translated from error
        except BaseException:
            self.cut()
            raise
        self._end()
        if answer.statusmessage != "COMMIT":
            raise CallerError(f"the transaction could not be committed: the server answered {answer.statusmessage}")

    async def rollback(self) -> None:
        by_handler = self._lent.loan.ended
        broke = await self._roll_back()
        if by_handler:
            raise ended()
        if broke:
            raise Unreachable("the connection to the store broke under a handler", "is the server running?")

    async def _roll_back(self) -> bool:
        """Whether the line was broken before: then the server has rolled back by itself."""
        if self._over:
            return False
        if not self._lent.loan.give_back() or self._in_command():
            self.cut()
            return False
        broke = False
        try:
            await self._own.execute(b"ROLLBACK")
        except psycopg.Error as error:
            # A line that does not even take this is closed, and then the server rolls back.
            broke = is_broken(self._own, error)
            self._own.pgconn.finish()
        except BaseException:
            self.cut()
            raise
        self._end()
        return broke

    def cut(self) -> None:
        if not self._over:
            self._over = True
            self._lent.loan.cut()
            self._home.gone()

    def _take_back(self) -> None:
        """The handler's part is over. Refuse what it left in a state that cannot be settled in."""
        if not self._lent.loan.give_back():
            raise CallerError("the handler returned while its connection was in use", "await what you start")
        if self._lent.loan.ended:
            raise ended()
        if self._own.pgconn.transaction_status == Status.INERROR:
            raise CallerError(
                "a statement failed, and the handler went on as if it had not: nothing can be committed",
                "let the error pass, or stand in `connection.transaction()`, which is a savepoint",
            )
        if self._in_command():
            raise CallerError("the handler returned in the middle of a command", "end every copy, stream and pipeline")

    def _in_command(self) -> bool:
        line = self._own.pgconn
        return line.transaction_status == Status.ACTIVE or line.pipeline_status != pq.PipelineStatus.OFF

    async def _rows(self, name: str, values: Sequence[Any] = ()) -> list[Row]:
        return await (await self._own.cursor(binary=True).execute(statements()[name].encode(), values)).fetchall()

    def _translated(self, error: psycopg.Error, write: bool) -> HeadraceError:
        return translate(self._home.url, error, is_broken(self._own, error), write)

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._home.keep(self._own)
