"""The few verbs that the tests of the runtime share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from waiting import PATIENCE_S, eventually

from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.jobs import DeadFilter, DeadView, JobView, Submission
from headrace.core.recount import recount
from headrace.ports.store import Store
from headrace.runtime.codec import pack_values
from headrace.runtime.flow import Flow
from headrace.runtime.seams import Seams
from headrace.runtime.worker import Worker
from headrace.runtime.yard import WorkerOptions

QUICK = WorkerOptions(hold_s=2.0, poll_s=0.05, partial_s=0.05, grace_s=0.1)


class Bench:
    """Submits to a store, runs workers on it and waits for what must come."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store

    async def submit(self, flow: Flow, *values: Any, **options: Any) -> str:
        stage = flow.graph.roots[0]
        parcels = tuple(pack_values(flow.stages[stage].codec, values))
        submission = Submission(Seams().identity.new(), flow.name, flow.graph, parcels, **options)
        return (await self.store.submit(submission)).job

    @asynccontextmanager
    async def worker(
        self, *flows: Flow, options: WorkerOptions = QUICK, store: Store | None = None, seams: Seams | None = None
    ) -> AsyncIterator[Worker]:
        worker = Worker(store or self.store, flows, seams, options)
        running = asyncio.ensure_future(worker.run())
        try:
            yield worker
        finally:
            worker.stop_now()
            await asyncio.wait_for(running, PATIENCE_S)

    async def ended(self, job: str) -> JobView:
        await eventually(lambda: self.store.finishes(job), f"job {job} ends")
        view = await self.store.job(job)
        assert not recount(await self.store.audit(job)), "the account must be clean"
        return view

    async def run(self, flow: Flow, *values: Any, **options: Any) -> JobView:
        job = await self.submit(flow, *values)
        async with self.worker(flow, **options):
            return await self.ended(job)

    async def dead(self, job: str) -> Sequence[DeadView]:
        return await self.store.dead(DeadFilter(job=job))


class Heard(logging.Handler):
    """What the logger was told."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.levelname, record.getMessage()))

    def of(self, event: str) -> list[tuple[str, str]]:
        return [(level, line) for level, line in self.lines if line.startswith(event)]
