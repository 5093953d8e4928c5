"""Connections on loan: a handler works on a line that is not its own, for as long as its call lasts.

One line to the server has two faces at a time, and they are never used at once: ours, which begins and ends the
transaction, and the handler's, made anew for each call. Everything a driver's connection and its cursors ask of the
server passes through `wait`, so that is where a loan that is over is refused, whoever kept a reference, and where it
is seen that the transaction has ended.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg import pq
from psycopg.abc import PQGen

from headrace.core.errors import CallerError, Conflict, TransactionEnded

RV = TypeVar("RV")
Row = tuple[Any, ...]


class Loan:
    """The right of one call to use a line. `ended`: the handler has ended the transaction by itself."""

    def __init__(self, line: pq.abc.PGconn) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._users = 0
        self._lent, self._cut = True, False
        self.ended = False

    def enter(self) -> None:
        """Somebody wants to use the line now."""
        with self._lock:
            if not self._lent:
                raise Conflict("this connection was for one call of a handler, and that call is over")
            self._users += 1

    def leave(self) -> None:
        """Somebody has used the line. One that was cut meanwhile is closed here, by its last user."""
        with self._lock:
            self._users -= 1
            if self._line.transaction_status == pq.TransactionStatus.IDLE:
                self.ended = True
            close = self._cut and not self._users
        if close:
            self._line.finish()

    def check(self) -> None:
        """Tell the handler at once that it has ended what it may not end."""
        if self.ended:
            raise ended()

    def give_back(self) -> bool:
        """The call is over. False: somebody is still using the line, so it is of no use to anybody else."""
        with self._lock:
            self._lent = False
            return not self._users

    def cut(self) -> None:
        """Break the line. Who waits for the server in this moment is woken by an error."""
        with self._lock:
            self._lent, self._cut = False, True
            close = not self._users
        if close:
            self._line.finish()
            return
        with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self._line.socket)) as wire:
            wire.shutdown(socket.SHUT_RDWR)


class LentAsync(psycopg.AsyncConnection[Row]):
    """What an async handler gets."""

    loan: Loan

    async def wait(self, gen: PQGen[RV], *values: Any, **named: Any) -> RV:
        self.loan.enter()
        try:
            answer = await super().wait(gen, *values, **named)
        finally:
            self.loan.leave()
        self.loan.check()
        return answer

    async def commit(self) -> NoReturn:
        raise _not_yours("commit")

    async def rollback(self) -> NoReturn:
        raise _not_yours("roll back")

    async def close(self) -> NoReturn:
        raise _not_yours("close")

    def __del__(self, *_: Any) -> None:
        """The line stays open: it was only lent."""


class Lent(psycopg.Connection[Row]):
    """What a handler in a thread gets."""

    loan: Loan

    def wait(self, gen: PQGen[RV], *values: Any, **named: Any) -> RV:
        self.loan.enter()
        try:
            answer = super().wait(gen, *values, **named)
        finally:
            self.loan.leave()
        self.loan.check()
        return answer

    def commit(self) -> NoReturn:
        raise _not_yours("commit")

    def rollback(self) -> NoReturn:
        raise _not_yours("roll back")

    def close(self) -> NoReturn:
        raise _not_yours("close")

    def __del__(self, *_: Any) -> None:
        """The line stays open: it was only lent."""


def lend(line: pq.abc.PGconn, awaits: bool) -> LentAsync | Lent:
    """A handler's face of a line. Nothing is prepared by it: its names would meet those of the next one."""
    lent = LentAsync(line) if awaits else Lent(line)
    lent.prepare_threshold = None
    lent.loan = Loan(line)
    return lent


def ended() -> TransactionEnded:
    return TransactionEnded(
        "the handler ended the transaction that it runs in, so its effects may stand without its item",
        "leave COMMIT and ROLLBACK to the settlement; connection.transaction() is a savepoint",
    )


def _not_yours(verb: str) -> CallerError:
    return CallerError(
        f"a handler does not {verb} the connection of its open transaction",
        "return for done, raise for not done; connection.transaction() is a savepoint",
    )
