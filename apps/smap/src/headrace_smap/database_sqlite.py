"""The database in one SQLite file, with the meaning it has in PostgreSQL and nothing to install.

One thread writes and one reads. What is queued for writing shares one commit, each transaction behind a savepoint, so
that the disk is flushed once for many. Writers of several processes queue on a side file's lock before they begin,
because waiting for SQLite's own lock means polling for it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
from functools import cache

import apsw

from headrace.errors import UnsafeStore
from headrace.tables import python_rows, stored_values
from headrace_smap.database import Row, Step, creating, statements
from headrace_smap.database_sqlite_desk import Desk, Request
from headrace_smap.database_sqlite_errors import SURROUNDINGS, meaning

BUSY_MS = 30_000
CACHE_KB = 16_384
CHECKPOINT_PAGES = 4_000
_WRITING = re.compile(r"\b(INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP)\b")
_UNSPOKEN = re.compile(r"--[^\n]*|'[^']*'")


class SqliteDatabase:
    """See `Database`. A statement may be a script of several; its rows are those of all."""

    dialect = "sqlite"

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        try:
            writing, reading = _connect(self._path), _connect(self._path)
        except apsw.Error as error:
            raise meaning(error, self._path) from error
        self._turn = os.open(f"{self._path}-writer", os.O_RDWR | os.O_CREAT, 0o600)
        self._writer, self._reader = Desk(writing, self._commit), Desk(reading, self._look)
        self._closed = False

    @classmethod
    async def open(cls, path: str) -> SqliteDatabase:
        return await asyncio.to_thread(cls, path)

    async def create(self) -> None:
        await asyncio.wrap_future(self._writer.put(_create))

    async def rows(self, name: str, **values: object) -> list[Row]:
        return (await self.transact((name, values)))[0]

    async def transact(self, *steps: Step) -> list[list[Row]]:
        def work(connection: apsw.Connection) -> list[list[Row]]:
            return [_rows(connection, step) for step in steps]

        desk = self._reader if all(only_reads(name) for name, _ in steps) else self._writer
        return await asyncio.wrap_future(desk.put(work))

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.close()
        self._reader.close()
        os.close(self._turn)

    def _commit(self, connection: apsw.Connection, requests: list[Request]) -> None:
        """All requests in one commit. One that fails leaves no trace and does not disturb the others."""
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        try:
            connection.execute("BEGIN IMMEDIATE")
            for request in requests:
                self._try(connection, request)
            connection.execute("COMMIT")
        except BaseException as error:  # the thread must outlive whatever happens to it
            _roll_back(connection)
            for request in requests:
                request.error = request.error or meaning(error, self._path)
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)

    def _try(self, connection: apsw.Connection, request: Request) -> None:
        connection.execute("SAVEPOINT request")
        try:
            request.answer = request.work(connection)
        except SURROUNDINGS:
            raise
        except Exception as error:  # whatever it is, it is this request's own
            request.error = meaning(error, self._path)
            connection.execute("ROLLBACK TO request")
        connection.execute("RELEASE request")

    def _look(self, connection: apsw.Connection, requests: list[Request]) -> None:
        """Each request on a snapshot of its own, held no longer than it takes."""
        for request in requests:
            try:
                connection.execute("BEGIN")
                request.answer = request.work(connection)
            except BaseException as error:  # the thread must outlive whatever happens to it
                request.error = meaning(error, self._path)
            finally:
                _roll_back(connection)


@cache
def only_reads(name: str) -> bool:
    """Whether a statement can be answered beside the writer."""
    return not _WRITING.search(_UNSPOKEN.sub("", statements("sqlite")[name]))


def _connect(path: str) -> apsw.Connection:
    connection = apsw.Connection(path)
    try:
        connection.set_busy_timeout(BUSY_MS)
        if connection.pragma("journal_mode", "wal") != "wal":
            raise UnsafeStore(f"{path} cannot have a write-ahead log", "use a local disk")
        connection.pragma("synchronous", "full")
        connection.pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        connection.pragma("cache_size", -CACHE_KB)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(connection: apsw.Connection) -> None:
    for text in creating("sqlite").values():
        connection.execute(text)


def _rows(connection: apsw.Connection, step: Step) -> list[Row]:
    name, values = step
    found = connection.execute(statements("sqlite")[name], stored_values(values))
    try:
        description = found.get_description()
    except apsw.ExecutionCompleteError:
        return []
    return python_rows(description, found.fetchall())


def _roll_back(connection: apsw.Connection) -> None:
    """After some errors SQLite has done it by itself."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
