"""A process that takes one lock again and again, and writes down each token while it holds it.

    python lock_holder_child.py {ours|unconfirmed|foreign} URL RESOURCE BOOK GRANTS

Lines are appended to the book under the lock, so their order is the order of the grants. After each grant the client
gives way to others. Ours runs two clients, each on an event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from foreign_lock_client import ForeignLockClient
from lock_clients import UnconfirmedTokens, session_on
from waiting import eventually, until

from headrace.adapters.cassandra.leases import CassandraLeases
from headrace.adapters.cassandra.tokens import Tokens
from headrace.services import LockClient

HOLD_S, PATIENCE_S, GIVE_WAY_S = 30.0, 60.0, 0.3
THREADS = 2


@dataclass(frozen=True)
class Task:
    kind: str
    url: str
    resource: str
    path: str
    grants: str


class Book:
    """Who was granted which token, in order."""

    def __init__(self, task: Task) -> None:
        self._path, self._kind = Path(task.path), task.kind
        self.me = f"{os.getpid()}-{threading.get_ident()}"

    def note(self, token: int) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{self._kind} {token} {self.me}\n".encode())
        os.close(descriptor)

    def others_turn(self) -> bool:
        """Whether somebody else wrote the last line."""
        return not self._path.read_text("ascii").rstrip().endswith(self.me)


async def hold(task: Task, ready: threading.Barrier) -> None:
    session, book = await session_on(task.url), Book(task)
    tokens = UnconfirmedTokens if task.kind == "unconfirmed" else Tokens
    locks = LockClient(CassandraLeases(session, tokens=tokens(session)))
    ready.wait(PATIENCE_S)
    for _ in range(int(task.grants)):
        result = await locks.acquire(task.resource, book.me, HOLD_S, PATIENCE_S)
        assert result.acquired, "nobody lets go"
        book.note(result.token)
        assert await locks.release(task.resource, book.me, result.token)
        with contextlib.suppress(TimeoutError):
            await eventually(book.others_turn, "somebody else is granted it", GIVE_WAY_S, TimeoutError)
    await session.close()


def hold_foreign(task: Task) -> None:
    book = Book(task)
    with ForeignLockClient(task.url) as locks:
        for _ in range(int(task.grants)):
            token = locks.acquire(task.resource, book.me, HOLD_S, PATIENCE_S)
            assert token is not None, "nobody lets go"
            book.note(token)
            assert locks.release(task.resource, book.me, token)
            with contextlib.suppress(AssertionError):
                until(book.others_turn, "somebody else is granted it", GIVE_WAY_S)


def main(task: Task) -> None:
    failures, ready = list[BaseException](), threading.Barrier(THREADS)
    if task.kind == "foreign":
        hold_foreign(task)
        return

    def run() -> None:
        try:
            asyncio.run(hold(task, ready))
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main(Task(*sys.argv[1:]))
