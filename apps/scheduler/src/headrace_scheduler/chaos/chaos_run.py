"""One run: servers and processes work, jobs come in, the plan is carried out, everything heals, and is counted."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from headrace.errors import HeadraceError
from headrace.testing import ServiceProcess
from headrace_scheduler.chaos.account import ChaosEvidence, JobAccount
from headrace_scheduler.chaos.bank import Bank, open_bank
from headrace_scheduler.chaos.chaos_report import ChaosReport, ChaosTimes, report_on
from headrace_scheduler.chaos.fault_lanes import FaultLanes
from headrace_scheduler.chaos.fault_plan import FaultPlan
from headrace_scheduler.chaos.fleet import Fleet
from headrace_scheduler.chaos.servers import ChaosServers
from headrace_scheduler.chaos.traffic import STOCK, ChaosTraffic, PlannedEnd
from headrace_scheduler.frame import FRAME, PROGRAM
from headrace_scheduler.jobs.values import RESOURCE
from headrace_scheduler.parts import SchedulerParts, open_parts
from headrace_scheduler.tables.all_tables import AllTables

OpenBank = Callable[[Mapping[str, str]], AbstractAsyncContextManager[Bank]]
LOOK_S = 0.5
RECONCILERS = 2
ASK_S = 30.0
AT_A_TIME = 16
# A lock outlives its worker by its time to live, the reconciler looks within 30 s of its end, and machines are busy.
FINISH_S_MAX = 180.0
SETTINGS = {
    "WORKER_POLL_INTERVAL_MS": "250",
    "WORKER_MAX_IN_PROGRESS": "4",
    "WORKER_BUCKETS": "4",
    "WORKER_BACKOFF_BASE_MS": "100",
    "WORKER_BACKOFF_MAX_MS": "1000",
    "WORKER_WAIT_S": "120",
}


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """`per_s` is how much comes in; `folder` is for logs. `environment` is what processes are started with; `program`
    runs a worker or a reconciler by its name."""

    plan: FaultPlan
    ttl_ms: int
    workers: int
    per_s: float
    folder: Path
    environment: Mapping[str, str]
    program: Sequence[str] = PROGRAM
    finish_s_max: float = FINISH_S_MAX


class ChaosRun:
    """`bank` makes the sink out of the environment: a test has a broken one."""

    def __init__(
        self, servers: ChaosServers, options: ChaosOptions, say: Callable[[str], None], bank: OpenBank = open_bank
    ) -> None:
        self._servers, self._options, self._say, self._open_bank = servers, options, say, bank
        self._variables = {
            **options.environment,
            **SETTINGS,
            "LOCK_TTL_MS": str(options.ttl_ms),
            **servers.variables,
        }

    async def run(self) -> ChaosReport:
        began = time.monotonic()
        async with self._opened() as (bank, parts, fleet, traffic):
            lanes = FaultLanes(self._options.plan, fleet, self._servers.nodes, self._servers.proxies, self._say)
            # First: the faults shall meet jobs that run.
            coming = asyncio.create_task(traffic.run(lanes.all_begun))
            await lanes.prepare()
            await lanes.run()
            broken_s = time.monotonic() - began
            self._say(f"{broken_s:6.1f} s  everything is whole again: what was accepted must end")
            await coming
            await fleet.settled()
            finished_s = await self._finish(parts, bank, traffic)
            await bank.settled()
            evidence = await _evidence(parts, bank, traffic, fleet)
            pause_s = await bank.longest_pause_s()
        return report_on(self._options, evidence, lanes, traffic, ChaosTimes(broken_s, finished_s, pause_s))

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[Bank, SchedulerParts, Fleet, ChaosTraffic]]:
        import httpx

        from headrace.http import Options, application, serving
        from headrace_scheduler.chaos.bank_routes import bank_routes

        options = self._options
        async with AsyncExitStack() as stack:
            bank = await stack.enter_async_context(self._open_bank(self._variables))
            served = await stack.enter_async_context(serving(application(Options("bank"), [bank_routes(bank)])))
            variables = {**self._variables, "WORKER_HTTP_ALLOW": served.url}
            fleet = Fleet(variables, options.folder, self._servers.library, options.program)
            stack.push_async_callback(fleet.end)
            services = ["worker"] * options.workers + ["reconciler"] * RECONCILERS
            parts, (api, orders), _ = await asyncio.gather(
                stack.enter_async_context(open_parts(FRAME.load(self._variables))),
                _started_apart(fleet),
                asyncio.gather(*map(fleet.start, services)),
            )
            client, shop = [
                await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=ASK_S, trust_env=False))
                for url in (api.url, orders.url)
            ]
            chance = random.Random(options.plan.seed)
            low, high = options.plan.size.long_s
            long_s = (options.ttl_ms / 1_000 + low, options.ttl_ms / 1_000 + high)
            traffic = ChaosTraffic(client, shop, parts, bank, served.url, chance, long_s, options.per_s)
            await traffic.open_shop()
            yield bank, parts, fleet, traffic

    async def _finish(self, parts: SchedulerParts, bank: Bank, traffic: ChaosTraffic) -> float:
        """How long it took until everything had ended; at most as long as is allowed."""
        began, left = time.monotonic(), dict(traffic.jobs)
        while time.monotonic() - began < self._options.finish_s_max:
            try:
                await traffic.redrive_lost()
                left = {job_id: end for job_id, end in left.items() if not await _ended(parts, job_id, end)}
                if not left and (await bank.shop()).shipped == traffic.orders and not await _held(parts):
                    break
            except HeadraceError as error:
                if not error.heals:
                    raise
            await asyncio.sleep(LOOK_S)
        return time.monotonic() - began


async def _started_apart(fleet: Fleet) -> tuple[ServiceProcess, ServiceProcess]:
    """The REST interface, and the shop that calls it."""
    api = await fleet.start_apart("api")
    return api, await fleet.start_apart("orders", more={"ORDERS_WORKER_URL": api.url})


async def job_accounts(tables: AllTables, planned: Mapping[UUID, PlannedEnd]) -> list[JobAccount]:
    """What the tables say of the jobs that were accepted."""
    room = asyncio.Semaphore(AT_A_TIME)

    async def account(job_id: UUID, end: PlannedEnd) -> JobAccount:
        async with room:
            job, runs = await tables.jobs.find(job_id), await tables.history.runs(job_id)
        return JobAccount(job_id, end, None if job is None else job.status, tuple(runs))

    return await asyncio.gather(*(account(job_id, end) for job_id, end in planned.items()))


async def _evidence(parts: SchedulerParts, bank: Bank, traffic: ChaosTraffic, fleet: Fleet) -> ChaosEvidence:
    return ChaosEvidence(
        await job_accounts(parts.tables, traffic.jobs),
        await bank.effects(),
        await bank.journal(),
        await _held(parts),
        tuple(fleet.lives),
        await bank.shop(),
        traffic.orders,
        STOCK,
    )


async def _ended(parts: SchedulerParts, job_id: UUID, end: PlannedEnd) -> bool:
    job = await parts.tables.jobs.find(job_id)
    return job is not None and job.status == end


async def _held(parts: SchedulerParts) -> list[str]:
    """Locks of jobs that somebody holds."""
    return [lease.name async for lease in parts.leases.leases() if lease.name.startswith(RESOURCE) and not lease.free]
