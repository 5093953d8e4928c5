"""A process that takes one lock again and again, and writes down each token while it holds it.

    python lock_holder_child.py {ours|unconfirmed|foreign} URL RESOURCE BOOK GRANTS

Lines are appended to the book under the lock, so their order is the order of the grants. Ours runs two clients, each on
an event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

from foreign_lock_client import ForeignLockClient
from lock_clients import UnconfirmedTokens, session_on

from headrace.adapters.cassandra.leases import CassandraLeases
from headrace.adapters.cassandra.tokens import Tokens
from headrace.services import LockClient

HOLD_S, PATIENCE_S = 30.0, 60.0
THREADS = 2


def note(book: Path, kind: str, token: int) -> None:
    descriptor = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{kind} {token}\n".encode())
    os.close(descriptor)


async def hold(kind: str, url: str, resource: str, book: Path, grants: int) -> None:
    session = await session_on(url)
    tokens = UnconfirmedTokens if kind == "unconfirmed" else Tokens
    locks, holder = (
        LockClient(CassandraLeases(session, tokens=tokens(session))),
        f"{os.getpid()}-{threading.get_ident()}",
    )
    for _ in range(grants):
        result = await locks.acquire(resource, holder, HOLD_S, PATIENCE_S)
        assert result.acquired, "nobody lets go"
        note(book, kind, result.token)
        assert await locks.release(resource, holder, result.token)
    await session.close()


def hold_foreign(url: str, resource: str, book: Path, grants: int) -> None:
    with ForeignLockClient(url) as locks:
        for _ in range(grants):
            token = locks.acquire(resource, "foreign", HOLD_S, PATIENCE_S)
            assert token is not None, "nobody lets go"
            note(book, "foreign", token)
            assert locks.release(resource, "foreign", token)


def main(kind: str, url: str, resource: str, path: str, count: str) -> None:
    book, grants = Path(path), int(count)
    if kind == "foreign":
        hold_foreign(url, resource, book, grants)
        return
    failures: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(hold(kind, url, resource, book, grants))
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
    main(*sys.argv[1:])
