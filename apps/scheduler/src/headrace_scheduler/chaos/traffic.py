"""What comes in all the time: jobs over the REST interface, rows of another program, and orders of a shop.

A request that has no answer is sent again under the same key, so what was accepted is known exactly.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

from headrace.errors import HeadraceError
from headrace.services import Pauses
from headrace_scheduler.chaos.bank import Bank
from headrace_scheduler.chaos.bank_routes import PATH
from headrace_scheduler.chaos.fault_plan import Range
from headrace_scheduler.jobs.buckets import bucket_of
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import JobStatus, Pending
from headrace_scheduler.parts import SchedulerParts
from headrace_scheduler.tables.job_tables import micros

if TYPE_CHECKING:
    import httpx

ARTICLE, STOCK, PRICE = "tea", 1_000_000, 45_000
# Shares of what comes in. The rest are jobs that run once and end well.
LONG, FAILING, DEAD, FOREIGN, ORDERS = 0.2, 0.1, 0.03, 0.08, 0.12
QUICK_S = (0.02, 0.4)
OPEN_MAX = 120
"""Jobs that may wait or run: while nodes are away nothing ends, and what is behind must be caught up with."""
ACCEPTED, CREATED, REDRIVEN = 200, 201, 202
DEAD_MAX = 200
WORKER_LOST = "worker_lost"
"""The class of the error of such a job."""


class PlannedEnd(StrEnum):
    """How a job must end."""

    COMPLETED = JobStatus.COMPLETED
    DEAD = JobStatus.DLQ


@dataclass
class ChaosTraffic:
    """`long_s` is between which seconds a long job takes. `jobs` are those that were accepted, with the end they must
    have; `orders` counts the shop's, `repeated` the requests that were sent again, `redriven` the dead jobs that were.
    """

    client: httpx.AsyncClient
    shop: httpx.AsyncClient
    parts: SchedulerParts
    bank: Bank
    bank_url: str
    chance: random.Random
    long_s: Range
    per_s: float
    jobs: dict[UUID, PlannedEnd] = field(default_factory=dict)
    foreign: int = 0
    orders: int = 0
    repeated: int = 0
    redriven: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def open_shop(self) -> None:
        await self._sent(self.shop, "PUT", f"/inventory/{ARTICLE}", {"stock": STOCK, "price": PRICE})

    async def run(self, stop: asyncio.Event) -> None:
        """Until it is stopped; what was begun by then is finished."""
        try:
            while not stop.is_set():
                await self._wait_for_room()
                self._begin()
                await asyncio.sleep(self.chance.expovariate(self.per_s))
            await asyncio.gather(*self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()

    async def redrive_lost(self) -> None:
        """Run again what is dead because its workers were lost: from outside, a job that kills them looks the same."""
        import httpx

        with contextlib.suppress(httpx.HTTPError):
            answer = await self.client.get("/dlq", params={"limit": DEAD_MAX})
            for dead in answer.json().get("jobs", []):
                if dead["error_class"] == WORKER_LOST:
                    again = await self.client.post(f"/dlq/{dead['job_id']}/redrive")
                    self.redriven += again.status_code == REDRIVEN

    async def _wait_for_room(self) -> None:
        while len(self._tasks) + len(self.jobs) - await self.bank.effect_count() > OPEN_MAX:
            await asyncio.sleep(1.0)

    def _begin(self) -> None:
        drawn = self.chance.random()
        job_id = UUID(int=self.chance.getrandbits(128), version=4)
        if drawn < ORDERS:
            work = self._order(job_id)
        elif drawn < ORDERS + FOREIGN:
            work = self._foreign(job_id, self._payload())
        elif drawn < ORDERS + FOREIGN + DEAD:
            work = self._job(job_id, {"type": "fail"}, PlannedEnd.DEAD)
        else:
            work = self._job(job_id, self._payload(), PlannedEnd.COMPLETED)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _payload(self) -> dict[str, Any]:
        long, failing = self.chance.random() < LONG, self.chance.random() < FAILING
        seconds = self.chance.uniform(*QUICK_S)
        if long:
            seconds = self.chance.uniform(*self.long_s)
        query = urlencode({"seconds": f"{seconds:.3f}", "fails": self.chance.randint(1, 2) if failing else 0})
        return {"type": "http", "method": "PUT", "url": f"{self.bank_url}{PATH}?{query}"}

    async def _job(self, key: UUID, payload: dict[str, Any], end: PlannedEnd) -> None:
        body = {"schedule": "now", "payload": payload, "max_duration_seconds": 60}
        document = await self._sent(self.client, "POST", "/jobs", body, str(key))
        self.jobs[UUID(document["job_id"])] = end

    async def _order(self, key: UUID) -> None:
        body = {"customer_id": f"customer-{key.hex[:8]}", "items": [{"sku": ARTICLE, "quantity": 1}]}
        await self._sent(self.shop, "POST", "/orders", body, str(key))
        self.orders += 1

    async def _foreign(self, job_id: UUID, payload: dict[str, Any]) -> None:
        """Rows as another program inserts them: into the two tables that it knows, and found by no id yet."""
        tables, text, pauses = self.parts.tables, json.dumps(payload), Pauses()
        bucket = bucket_of(job_id, self.parts.installation.buckets)
        at = whole_ms(tables.now() - timedelta(milliseconds=1))
        key = {"bucket_id": bucket, "scheduled_time": at, "job_id": job_id, "written_us": micros(at)}
        while True:
            try:
                await tables.tables.rows("job_add", **key, payload=text, status=JobStatus.PENDING)
                await tables.pending.add(Pending(bucket, at, job_id, text, micros(at)))
                break
            except HeadraceError as error:
                if not error.heals:
                    raise
                await asyncio.sleep(pauses.next_s())
        self.foreign += 1
        self.jobs[job_id] = PlannedEnd.COMPLETED

    async def _sent(
        self, client: httpx.AsyncClient, method: str, path: str, body: dict[str, Any], key: str | None = None
    ) -> dict[str, Any]:
        import httpx

        headers, pauses = {"Idempotency-Key": key} if key else {}, Pauses()
        while True:
            try:
                answer = await client.request(method, path, json=body, headers=headers)
                if answer.status_code in (ACCEPTED, CREATED):
                    document: dict[str, Any] = answer.json()
                    return document
            except httpx.HTTPError:
                pass
            self.repeated += 1
            await asyncio.sleep(pauses.next_s())
