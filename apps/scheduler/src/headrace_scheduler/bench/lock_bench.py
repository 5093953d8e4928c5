"""Locks: low, medium and high contention (a resource for each client, ten, one) by so many clients at a time.

A client acquires, renews and releases; every fourth grant is left to expire, and the next client takes it over. Each
has a session and a lock client of its own, as another process would: those who share one wait for each other in memory.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from headrace.ports import LeaseOperation, LeaseOutcome, Leases, LeaseVerb
from headrace.services import Backoff
from headrace.tables import CassandraTables
from headrace_scheduler.bench.bench_place import BenchPlace, Usage, usage
from headrace_scheduler.bench.bench_plan import LOCKS, BenchPlan, Finding

CONTENTIONS: Mapping[str, int | None] = {"low": None, "medium": 10, "high": 1}
"""Resources that all share; None: one for each."""
BACKOFF = Backoff(0.05, 2.0)
LEFT_EVERY = 4
LEFT_S = 0.05
PERCENTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class LockLoad:
    """One mix."""

    contention: str
    threads: int
    ttl_ms: int
    seconds: float

    def resource(self, thread: int, chance: random.Random) -> str:
        shared = CONTENTIONS[self.contention]
        number = thread if shared is None else chance.randrange(shared)
        return f"bench:{self.contention}:{self.threads}:{self.ttl_ms}:{number}"


@dataclass(slots=True)
class LockCount:
    """What was seen of the operations; only while it is `open`."""

    operations: list[LeaseOperation] = field(default_factory=list)
    open: bool = False

    def observe(self, operation: LeaseOperation) -> None:
        if self.open:
            self.operations.append(operation)


def lock_findings(place: BenchPlace, plan: BenchPlan) -> Iterator[Finding]:
    for contention in CONTENTIONS:
        for threads in plan.threads:
            for ttl_ms in plan.ttls_ms:
                load = LockLoad(contention, threads, ttl_ms, plan.lock_s)
                yield from asyncio.run(_measure(place, load))


async def _measure(place: BenchPlace, load: LockLoad) -> list[Finding]:
    count = LockCount()
    async with AsyncExitStack() as stack:
        opening = (
            stack.enter_async_context(CassandraTables.open(place.direct, observe=count.observe))
            for _ in range(load.threads)
        )
        clients = await asyncio.gather(*opening)
        before, used, began = place.server(), time.process_time(), time.perf_counter()
        count.open, until = True, began + load.seconds
        await asyncio.gather(*(_client(each.leases, number, load, until) for number, each in enumerate(clients)))
        count.open = False
        seconds, after = time.perf_counter() - began, place.server()
    client = Usage(time.process_time() - used, usage(os.getpid()).rss_mb)
    server = Usage(after.cpu_s - before.cpu_s, after.rss_mb)
    return _findings(load, count, seconds, client, server)


async def _client(leases: Leases, thread: int, load: LockLoad, until: float) -> None:
    chance, turns, refusals = random.Random(thread), 0, 0
    while time.perf_counter() < until:
        turns += 1
        left = turns % LEFT_EVERY == 0
        hold_s = LEFT_S if left else load.ttl_ms / 1_000
        name = load.resource(thread, chance)
        leased = await leases.acquire(name, f"{thread}-{turns}", hold_s)
        if not leased.granted:
            refusals += 1
            pause_s = BACKOFF.pause_s(refusals, chance.random())
            await asyncio.sleep(min(pause_s, max(0.0, until - time.perf_counter())))
            continue
        refusals = 0
        if left:
            await asyncio.sleep(LEFT_S)
        else:
            await leases.renew(name, leased.lease.fence, hold_s)
            await leases.release(name, leased.lease.fence)


def _findings(load: LockLoad, count: LockCount, seconds: float, client: Usage, server: Usage) -> list[Finding]:
    by_verb: dict[LeaseVerb, list[LeaseOperation]] = {verb: [] for verb in LeaseVerb}
    for operation in count.operations:
        by_verb[operation.op].append(operation)
    total = len(count.operations) or 1
    shared: Finding = {
        "part": LOCKS,
        "contention": load.contention,
        "threads": load.threads,
        "ttl_ms": load.ttl_ms,
    }
    costs: Finding = {
        "client_cpu_ms_per_op": round(client.cpu_s / total * 1e3, 3),
        "server_cpu_ms_per_op": round(server.cpu_s / total * 1e3, 3),
        "client_rss_mb": round(client.rss_mb, 1),
        "server_rss_mb": round(server.rss_mb, 1),
    }
    return [{**shared, **_verb(verb, found, seconds), **costs} for verb, found in by_verb.items()]


def _verb(verb: LeaseVerb, found: list[LeaseOperation], seconds: float) -> Finding:
    times = sorted(operation.seconds for operation in found)
    outcomes = [operation.outcome for operation in found]
    places = {f"p{round(share * 100)}_ms": _percentile_ms(times, share) for share in PERCENTILES}
    return {
        "op": str(verb),
        "count": len(found),
        "ops_per_s": round(len(found) / seconds, 1),
        **places,
        "refused": outcomes.count(LeaseOutcome.REFUSED),
        "failed": outcomes.count(LeaseOutcome.FAILED),
    }


def _percentile_ms(times: list[float], share: float) -> float | None:
    return round(times[min(len(times) - 1, int(len(times) * share))] * 1e3, 2) if times else None
