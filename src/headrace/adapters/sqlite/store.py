"""`SqliteStore`: store, operations and inspector on one SQLite file, or in memory."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import apsw

from headrace.adapters.sqlite import claims, operations, staged_parcels, submissions, sweep, views
from headrace.adapters.sqlite.bus import SqliteBus
from headrace.adapters.sqlite.clock import MachineClock
from headrace.adapters.sqlite.connections import MEMORY
from headrace.adapters.sqlite.database import SqliteDatabase
from headrace.adapters.sqlite.inbox import SqliteInbox
from headrace.adapters.sqlite.leases import SqliteLeases
from headrace.adapters.sqlite.ledger import SqliteLedger
from headrace.adapters.sqlite.outbox import SqliteOutbox
from headrace.adapters.sqlite.schedules import SqliteSchedules
from headrace.adapters.sqlite.settlements import settle
from headrace.adapters.sqlite.statements import load_statements
from headrace.adapters.sqlite.store_transactions import Transactions
from headrace.adapters.sqlite.tables import SqliteTables
from headrace.adapters.sqlite.transaction import Memory, Transaction
from headrace.adapters.sqlite.writer import ThreadedDatabase
from headrace.core.audit import JobAudit
from headrace.core.claims import Grant, Renewed, Settled, Settlement, Swept, Want
from headrace.core.jobs import (
    DeadFilter,
    DeadView,
    FinishView,
    ItemView,
    JobFilter,
    JobView,
    Submission,
    Submitted,
    WorkerView,
)
from headrace.core.losses import Charge, charge
from headrace.core.parcels import Parcel
from headrace.core.rotation import Turn
from headrace.ports.seams import Clock
from headrace.ports.store import Features

T = TypeVar("T")
Judge = Callable[[bool, Sequence[int], int], Charge]


class SqliteStore:
    """One handle on the account. Several may share a database; each has its own place in the rotation."""

    def __init__(
        self,
        database: SqliteDatabase,
        clock: Clock | None = None,
        statements: Mapping[str, str] | None = None,
        judge: Judge = charge,
        features: Features | None = None,
    ) -> None:
        self._database = database
        self._clock = clock or MachineClock()
        self._statements = statements or load_statements()
        self._judge = judge
        self._memory = Memory()
        self._turns: dict[str, Turn] = {}
        self.features = features or Features(durable=False, many_processes=False)
        beside = Transactions(self._write, self._read, self.on_wake)
        self.outbox, self.inbox, self.bus = SqliteOutbox(beside), SqliteInbox(beside), SqliteBus(beside)
        self.ledger, self.leases, self.tables = SqliteLedger(beside), SqliteLeases(beside), SqliteTables(beside)
        self.schedules = SqliteSchedules(beside)

    @classmethod
    async def open(cls, path: str = MEMORY, clock: Clock | None = None) -> SqliteStore:
        """Open a file (created if it is not there), or a store in memory that ends with its handle."""
        real = clock or MachineClock()
        database = await ThreadedDatabase.open(path, real)
        on_disk = path != MEMORY
        return cls(database, real, features=Features(durable=on_disk, many_processes=on_disk))

    async def submit(self, submission: Submission) -> Submitted:
        return await self._write(lambda tx: submissions.submit(tx, submission))

    async def send(self, owner: int | str, parcels: Sequence[Parcel]) -> bool:
        return await self._write(lambda tx: staged_parcels.stage_parcels(tx, owner, parcels))

    async def claim(self, worker: str, wants: Sequence[Want], hold_s: float) -> Grant:
        holder = self._holder(worker, hold_s)
        return await self._write(lambda tx: claims.grant(tx, self._turns, holder, wants))

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        return await self._write(lambda tx: [settle(tx, settlement) for settlement in settlements])

    def renew(self, worker: str, fences: Sequence[int], hold_s: float) -> Renewed:
        holder = self._holder(worker, hold_s)
        return self._database.write_blocking(lambda connection: claims.renew(self._tx(connection), holder, fences))

    async def sweep(self) -> Swept:
        return await self._write(lambda tx: sweep.sweep(tx, self._judge))

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        return self._database.on_wake(ring)

    async def close(self) -> None:
        await self._database.close()

    async def cancel(self, job: str) -> bool:
        return await self._write(lambda tx: operations.cancel(tx, job))

    async def cancel_item(self, job: str, stage: str, seq: int) -> bool:
        return await self._write(lambda tx: operations.cancel_item(tx, job, stage, seq))

    async def pause(self, job: str) -> bool:
        return await self._write(lambda tx: operations.pause(tx, job))

    async def resume(self, job: str) -> bool:
        return await self._write(lambda tx: operations.resume(tx, job))

    async def redrive(self, which: DeadFilter) -> int:
        return await self._write(lambda tx: submissions.redrive(tx, which))

    async def purge(self, which: DeadFilter) -> int:
        return await self._write(lambda tx: operations.purge(tx, which))

    async def retain(self) -> int:
        return await self._write(sweep.retain)

    async def close_external(self, job: str, stage: str, event_id: str) -> bool:
        return await self._write(lambda tx: operations.close_external(tx, job, stage, event_id))

    async def job(self, job: str) -> JobView:
        return await self._read(lambda tx: views.job_view(tx, job))

    async def jobs(self, which: JobFilter) -> Sequence[JobView]:
        return await self._read(lambda tx: views.job_list(tx, which))

    async def items(self, job: str, stage: str, after_seq: int, limit: int) -> Sequence[ItemView]:
        return await self._read(lambda tx: views.item_list(tx, job, stage, (after_seq, limit)))

    async def dead(self, which: DeadFilter) -> Sequence[DeadView]:
        return await self._read(lambda tx: views.dead_list(tx, which))

    async def finishes(self, job: str) -> Sequence[FinishView]:
        return await self._read(lambda tx: views.finish_list(tx, job))

    async def workers(self) -> Sequence[WorkerView]:
        return await self._read(views.worker_list)

    async def audit(self, job: str) -> JobAudit:
        return await self._read(lambda tx: views.audit(tx, job))

    def _holder(self, worker: str, hold_s: float) -> claims.Holder:
        return claims.Holder(worker, socket.gethostname(), os.getpid(), hold_s)

    def _tx(self, connection: apsw.Connection) -> Transaction:
        return Transaction(connection, self._statements, self._clock, self._memory)

    async def _write(self, work: Callable[[Transaction], T]) -> T:
        def within(connection: apsw.Connection) -> tuple[T, bool]:
            tx = self._tx(connection)
            answer = work(tx)
            return answer, tx.rang

        answer, rang = await self._database.write(within)
        if rang:
            self._database.ring()
        return answer

    async def _read(self, work: Callable[[Transaction], T]) -> T:
        return await self._database.read(lambda connection: work(self._tx(connection)))
