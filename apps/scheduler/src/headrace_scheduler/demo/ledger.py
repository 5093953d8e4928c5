"""Where the demo's payments are: a database of somebody else, that knows of a run only its token.

It keeps the highest token of each resource. A run begins by raising it; a payment raises it again in its own
transaction, and a token that is lower pays nothing. So an earlier run that comes late changes nothing, and a later one
finds what was paid before.
"""

from __future__ import annotations

import enum
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BUSY_S_MAX = 10.0
_TABLES = (
    "CREATE TABLE IF NOT EXISTS fence (resource TEXT PRIMARY KEY, token INTEGER NOT NULL, pid INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS payment (sale TEXT PRIMARY KEY, amount INTEGER NOT NULL, token INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS answer (resource TEXT NOT NULL, token INTEGER NOT NULL, answer TEXT NOT NULL)",
)
_HIGHEST = "SELECT token FROM fence WHERE resource = ?"
_RAISE = "INSERT INTO fence VALUES (?, ?, ?) ON CONFLICT (resource) DO UPDATE SET token = ?2, pid = ?3"
_PAY = "INSERT INTO payment VALUES (?, ?, ?) ON CONFLICT (sale) DO NOTHING"


class PaymentAnswer(enum.StrEnum):
    """What became of a payment."""

    PAID = "paid"
    PAID_BEFORE = "paid before"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class FencedRun:
    """One run of a job as the ledger sees it."""

    resource: str
    token: int
    pid: int


class PaymentLedger:
    """One process's handle on the file."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=BUSY_S_MAX, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        for statement in _TABLES:
            self._connection.execute(statement)

    def begin(self, run: FencedRun) -> bool:
        """Fence off every earlier run. False: a later one has begun."""
        with self._transaction():
            return self._raised(run)

    def pay(self, run: FencedRun, sale: str, amount: int) -> PaymentAnswer:
        """The payment and the check of the token are one transaction."""
        with self._transaction():
            answer = PaymentAnswer.REFUSED
            if self._raised(run):
                paid = self._connection.execute(_PAY, (sale, amount, run.token)).rowcount
                answer = PaymentAnswer.PAID if paid else PaymentAnswer.PAID_BEFORE
            self._connection.execute("INSERT INTO answer VALUES (?, ?, ?)", (run.resource, run.token, answer))
        return answer

    def run_of(self, resource: str) -> FencedRun | None:
        """The run that is in charge of a resource."""
        row = self._connection.execute("SELECT * FROM fence WHERE resource = ?", (resource,)).fetchone()
        return None if row is None else FencedRun(*row)

    def payments(self) -> dict[str, int]:
        """The amount of every sale that was paid."""
        return dict(self._connection.execute("SELECT sale, amount FROM payment"))

    def count(self, answer: PaymentAnswer) -> int:
        (found,) = self._connection.execute("SELECT count(*) FROM answer WHERE answer = ?", (answer,)).fetchone()
        return int(found)

    def close(self) -> None:
        self._connection.close()

    def _raised(self, run: FencedRun) -> bool:
        highest = self._connection.execute(_HIGHEST, (run.resource,)).fetchone()
        if highest is not None and highest[0] > run.token:
            return False
        self._connection.execute(_RAISE, (run.resource, run.token, run.pid))
        return True

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # Locked before the token is read: two runs that read it at once would both be the highest.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
