"""`PostgresStore`: store, operations and inspector on a PostgreSQL database.

The account itself is kept by functions in the database (`sql/functions`), so that a claim or a settlement is one
statement in autocommit, whole or not at all. This side translates, keeps its place in the rotation, and wakes.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from headrace.adapters.postgres import caller_transactions, decoder, schema, submissions, views
from headrace.adapters.postgres.bus import PostgresBus
from headrace.adapters.postgres.calls import Graphs, Row, one, rows
from headrace.adapters.postgres.connections import Connection
from headrace.adapters.postgres.encoder import Cargo, loss_details, turn_details
from headrace.adapters.postgres.inbox import PostgresInbox
from headrace.adapters.postgres.lanes import Lanes, Owner
from headrace.adapters.postgres.leases import PostgresLeases
from headrace.adapters.postgres.ledger import PostgresLedger
from headrace.adapters.postgres.notifications import Notifications
from headrace.adapters.postgres.open_transactions import PostgresTransaction, PostgresTransactions
from headrace.adapters.postgres.operations import PostgresOperations
from headrace.adapters.postgres.outbox import PostgresOutbox
from headrace.adapters.postgres.schedules import PostgresSchedules
from headrace.adapters.postgres.settlements import settle
from headrace.adapters.postgres.statements import statements
from headrace.adapters.postgres.tables import PostgresTables
from headrace.core.audit import JobAudit
from headrace.core.claims import CRASHES_MAX, Grant, Renewed, Settled, Settlement, Swept, Want
from headrace.core.errors import HeadraceError, Unknown
from headrace.core.graph import Graph
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
from headrace.core.losses import DEADLINE, WORKER_LOST
from headrace.core.parcels import Parcel
from headrace.core.rotation import ALONE_SLICE_MAX, LOWEST_EVERY, SHARE_CHUNKS, Turn
from headrace.ports.store import Features
from headrace.ports.transactions import Terms

T = TypeVar("T")
LANES = 3
ROTATION = {"lowest_every": LOWEST_EVERY, "alone_slice_max": ALONE_SLICE_MAX, "share_chunks": SHARE_CHUNKS}
FORGET_EVERY_S = 5.0


class PostgresStore(PostgresOperations):
    """One handle on the account. Each has connections of its own and its own place in the rotation."""

    def __init__(self, url: str, lanes: int = LANES) -> None:
        self._lanes = Lanes(url, lanes, _raise_fence)
        self._heart = Owner(url, _raise_fence)
        self._notifications = Notifications(url)
        self._graphs = Graphs()
        self._turns: dict[str, Turn] = {}
        self._holder = {"host": socket.gethostname(), "pid": os.getpid()}
        self._name = f"{self._holder['host']}.{self._holder['pid']}.{id(self):x}"
        self._requests = itertools.count(1)
        self._unanswered: dict[str, list[str]] = {}
        self._forgot_at = 0.0
        self.features = Features(open_transactions=True)
        self._open = PostgresTransactions(url, self._lanes, self._ring)
        self.outbox, self.bus = (
            PostgresOutbox(self._lanes, self._notifications),
            PostgresBus(self._lanes, self._notifications),
        )
        self.tables = PostgresTables(url, self._ring)
        self.inbox = PostgresInbox(self._lanes, self._graphs, self._ring)
        self.ledger, self.leases = PostgresLedger(self._lanes, self._notifications), PostgresLeases(self._lanes)
        self.schedules = PostgresSchedules(self._lanes, self._notifications)

    @classmethod
    async def open(cls, url: str, lanes: int = LANES) -> PostgresStore:
        """Open a store; an empty database is made one. Refused with words if it does not answer or does not fit."""
        await asyncio.to_thread(schema.prepare, url)
        return cls(url, lanes)

    async def submit(self, submission: Submission) -> Submitted:
        submitted, rang = await self._lanes.write(lambda connection: submissions.submit(connection, submission))
        self._ring(rang)
        return submitted

    async def send(self, owner: int | str, parcels: Sequence[Parcel]) -> bool:
        cargo = Cargo()
        described = json.dumps([cargo.parcel(parcel) for parcel in parcels])
        fence = owner if isinstance(owner, int) else None
        values = (str(owner), fence, described, cargo.payloads, cargo.ends)
        return bool((await self._call("send", values))[0])

    async def claim(self, worker: str, wants: Sequence[Want], hold_s: float) -> Grant:
        queues = [f"{want.flow}/{want.stage}" for want in wants]
        turns = [self._turns.setdefault(queue, Turn()) for queue in queues]
        request, unanswered = f"{self._name}.{next(self._requests)}", self._unanswered.pop(worker, [])
        holder = {**self._holder, **ROTATION, "hold_s": hold_s, "request": request}
        values = (
            worker,
            json.dumps({**holder, "unanswered": unanswered} if unanswered else holder),
            queues,
            [want.room for want in wants],
            [want.slice_max for want in wants],
            json.dumps([turn_details(turn) for turn in turns]),
        )
        try:
            *slices, last = await self._lanes.write(lambda connection: self._granted(connection, values))
        except HeadraceError as error:
            # What this call may have been granted is asked for by the next one.
            self._unanswered[worker] = [*unanswered, request] if isinstance(error, Unknown) else unanswered
            raise
        for row in slices:
            self._turns[row[decoder.QUEUE]].serve(row[decoder.TENANT], row[decoder.JOB])
        claims = tuple(decoder.claim_of(row, self._graphs[row[decoder.GRAPH]]) for row in slices)
        return Grant(claims, last[decoder.WAIT_S])

    def _granted(self, connection: Connection, values: Sequence[object]) -> list[Row]:
        granted = rows(connection, "claim", values)
        self._graphs.learn(connection, {row[decoder.GRAPH] for row in granted[:-1]})
        return granted

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        if not settlements:
            return []
        answers, rang = await self._lanes.write(lambda connection: settle(connection, settlements))
        self._ring(rang)
        return answers

    async def begin(self, terms: Terms) -> PostgresTransaction:
        return await self._open.begin(terms)

    async def resolve(self, settlements: Sequence[Settlement]) -> list[Settled]:
        return await self._open.resolve(settlements)

    async def revoke(self, fences: Sequence[int]) -> None:
        await self._open.revoke(fences)

    async def submit_in(self, connection: Any, submission: Submission, notify: bool) -> Submitted:
        return await caller_transactions.submit_in_async(connection, submission, notify)

    def renew(self, worker: str, fences: Sequence[int], hold_s: float) -> Renewed:
        if hold_s <= 0:
            self._heart.run(partial(rows, name="worker_goodbye", values=(worker,)), write=True)
            return Renewed(frozenset())
        holder = json.dumps({**self._holder, "hold_s": hold_s})
        work = partial(one, name="renew", values=(worker, holder, list(fences)))
        try:
            kept, ending = self._heart.run(work, write=True)
        except Unknown:
            # The server was restarted, or the line cut: there is still time, and to renew twice is to renew.
            kept, ending = self._heart.run(work, write=True)
        return Renewed(frozenset(kept), frozenset(ending))

    async def sweep(self) -> Swept:
        worker_lost, deadline = json.dumps(loss_details(WORKER_LOST)), json.dumps(loss_details(DEADLINE))
        lost, wait_s, rang = await self._ending("sweep", (CRASHES_MAX, worker_lost))
        self._ring(rang)
        _, rang = await self._ending("expire_externals", (deadline,))
        self._ring(rang)
        if time.monotonic() - self._forgot_at > FORGET_EVERY_S:
            self._forgot_at = time.monotonic()
            await self._call("forget")
            await self._call("retain")
            await self.outbox.retain_some()
        return Swept(lost, wait_s)

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        return self._notifications.on_wake(ring)

    async def close(self) -> None:
        self._open.close()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._notifications.close()
        self._lanes.close()
        self.tables.close()
        self._heart.close()

    async def job(self, job: str) -> JobView:
        found = await self._look(lambda c: views.job_views(c, self._graphs, JobFilter(limit=1), job))
        if not found:
            raise views.missing(job)
        return found[0]

    async def jobs(self, which: JobFilter) -> Sequence[JobView]:
        return await self._look(lambda connection: views.job_views(connection, self._graphs, which))

    async def items(self, job: str, stage: str, after_seq: int, limit: int) -> Sequence[ItemView]:
        def read(connection: Connection) -> list[ItemView]:
            place = stage, self._graph(connection, job).position(stage)
            return views.item_views(connection, job, place, (after_seq, limit))

        return await self._look(read)

    async def dead(self, which: DeadFilter) -> Sequence[DeadView]:
        return await self._look(lambda connection: views.dead_views(connection, which))

    async def finishes(self, job: str) -> Sequence[FinishView]:
        return await self._look(lambda connection: views.finish_views(connection, job))

    async def workers(self) -> Sequence[WorkerView]:
        return await self._look(views.worker_views)

    async def audit(self, job: str) -> JobAudit:
        return await self._look(lambda connection: views.audit(connection, self._graphs, job))

    async def _look(self, read: Callable[[Connection], T]) -> T:
        """Several reads of one instant."""

        def within(connection: Connection) -> T:
            with connection.transaction():
                connection.execute(statements()["snapshot"].encode())
                return read(connection)

        return await self._lanes.read(within)

    def _graph(self, connection: Connection, job: str) -> Graph:
        found = rows(connection, "job_graph", (job,))
        if not found:
            raise views.missing(job)
        return self._graphs.one(connection, found[0][0])


def _raise_fence(connection: Connection) -> None:
    connection.execute(statements()["raise_fence"].encode())
