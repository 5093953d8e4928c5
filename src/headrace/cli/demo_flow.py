"""The flow of `headrace demo`: one order becomes thousands of charges and one report.

Every item leaves exactly one effect in a table of its own. The table does not trust anybody: an effect key
is inserted once, and what comes again is written down as refused. So the receipt is read, not believed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import apsw
import msgspec

from headrace.core.tally import Tally
from headrace.runtime.context import Context, Out
from headrace.runtime.flow import Flow

SINK_VARIABLE = "HEADRACE_DEMO_SINK"
WORK_S = 0.01
_TABLES = (
    "CREATE TABLE IF NOT EXISTS tried (effect_key TEXT, fence INTEGER, pid INTEGER)",
    "CREATE TABLE IF NOT EXISTS effect (effect_key TEXT PRIMARY KEY, fence INTEGER, pid INTEGER) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS refused (effect_key TEXT, fence INTEGER, pid INTEGER)",
)
_BUSY = "SELECT DISTINCT t.pid FROM tried t LEFT JOIN effect e USING (effect_key) WHERE e.effect_key IS NULL"
_ONCE = "INSERT INTO effect VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
# A takeover is a fence under which somebody began an item that somebody else ended under a later fence.
_TAKEOVERS = "SELECT count(DISTINCT t.fence) FROM tried t JOIN tried u USING (effect_key) WHERE u.fence > t.fence"

flow = Flow("demo")


class Order(msgspec.Struct, frozen=True):
    charges: int


class Payment(msgspec.Struct, frozen=True):
    customer: int
    cents: int


class Effects:
    """The side table that charges go to."""

    def __init__(self, path: str) -> None:
        self._connection = apsw.Connection(path)
        self._connection.set_busy_timeout(5_000)
        self._connection.pragma("journal_mode", "wal")
        # Written pages survive the death of a process without a sync; only a power cut would need one.
        self._connection.pragma("synchronous", "off")
        for statement in _TABLES:
            self._connection.execute(statement)

    def begin(self, context: Context) -> None:
        """Note who began this item."""
        self._connection.execute("INSERT INTO tried VALUES (?, ?, ?)", self._row(context))

    def once(self, context: Context) -> None:
        """Apply the effect if it is the first under its key; refuse it otherwise, and say so."""
        with self._connection:
            self._connection.execute(_ONCE, self._row(context))
            if not self._connection.changes():
                self._connection.execute("INSERT INTO refused VALUES (?, ?, ?)", self._row(context))

    def busy(self) -> list[int]:
        """The processes that have begun an item and not yet left its effect."""
        return [int(str(row[0])) for row in self._connection.execute(_BUSY)]

    def receipt(self) -> Mapping[str, int]:
        """What really happened, counted in the table."""
        return {
            "effects": self._count("SELECT count(*) FROM effect"),
            "duplicates_refused": self._count("SELECT count(*) FROM refused"),
            "takeovers": self._count(_TAKEOVERS),
        }

    def close(self) -> None:
        self._connection.close()

    def _count(self, statement: str) -> int:
        rows: list[Any] = self._connection.execute(statement).fetchall()
        return int(rows[0][0])

    @staticmethod
    def _row(context: Context) -> tuple[Any, ...]:
        return context.effect_key, context.fence, os.getpid()


@cache
def effects() -> Effects:
    """This process's handle on the side table."""
    return Effects(os.environ[SINK_VARIABLE])


@flow.stage(feeds="charge")
async def order(placed: Order, out: Out, context: Context) -> None:
    effects().begin(context)
    for number in range(placed.charges):
        out.send("charge", Payment(number, 100 + number % 900), key=f"customer-{number}")
    effects().once(context)


@flow.stage(concurrency=8)
async def charge(_charge: Payment, context: Context) -> None:
    effects().begin(context)
    await asyncio.sleep(WORK_S)
    effects().once(context)


@flow.stage(after="charge")
async def report(_tally: Tally, context: Context) -> None:
    effects().begin(context)
    effects().once(context)
