"""One commit for many: a piece of work that fails leaves no trace and does not disturb the others."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import apsw
import pytest
from waiting import turn

from headrace.adapters.sqlite.clock import MachineClock
from headrace.adapters.sqlite.writer import ThreadedDatabase


def put(value: int) -> object:
    return lambda connection: connection.execute("INSERT INTO seat VALUES (?)", (value,)).fetchall()


@pytest.mark.parametrize("error", [IndexError("beyond the slice"), apsw.ConstraintError("twice")])
async def test_whatever_one_piece_raises_the_others_are_committed(tmp_path: Path, error: Exception) -> None:
    database = await ThreadedDatabase.open(str(tmp_path / "store.db"), MachineClock())
    await database.write(lambda connection: connection.execute("CREATE TABLE seat (id INTEGER)").fetchall())
    gate = threading.Event()

    def fail(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO seat VALUES (2)")
        raise error

    # While the first one waits, the others queue and share the next commit.
    works = [lambda _: gate.wait(), put(1), fail, put(3)]
    answers = [asyncio.ensure_future(database.write(work)) for work in works]
    await turn()
    gate.set()
    outcomes = await asyncio.gather(*answers, return_exceptions=True)
    assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, False, True, False]
    seats = await database.read(lambda connection: connection.execute("SELECT id FROM seat ORDER BY id").fetchall())
    assert seats == [(1,), (3,)]
    await database.close()
