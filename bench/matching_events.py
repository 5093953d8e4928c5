"""How fast does matching's phase manager take events, and how soon is a phase entered?

On PostgreSQL and RabbitMQ of the rig:
    raw       the rows of the events in the same batches, by one prepared statement: what PostgreSQL takes by itself
    decoded   delivered messages are decoded, judged by their schemas, written and counted, in the manager's two lanes;
              nothing of a broker is in it
    broker    the same events from a waiting queue of RabbitMQ to their acknowledgement
    latency   from the publish of the last event that a phase waits for until the next phase is committed, and until a
              listener on the bus has heard of it; one job after another

Of a job's events all but eight speak of an asset; one in ten is a repeat.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

import psycopg
import structlog
import uuid_utils
from prometheus_client import CollectorRegistry
from rig import tell

from headrace.consuming import Consumer, Delivery, Subscription
from headrace.ports import Event
from headrace.testing.rig import new_server
from headrace_matching.api.service import BATCH_MAX, LANES, QUEUE, ApiService
from headrace_matching.events.names import CLOSED_BY, COMPLETED, PHASE_ENTERED, READY, Phase
from headrace_matching.frame import FRAME
from headrace_matching.parts import MatchingParts, open_parts
from headrace_matching.phases.intake import EventIntake, IntakeOptions
from headrace_matching.phases.jobs import JobOrder
from headrace_matching.phases.metrics import EventMetrics
from headrace_matching.phases.transitions import Transitions
from headrace_matching.settings import MatchingSettings

ASSETS = 500
"""Of a job, of each kind."""
REPEATED = 0.1
ORDER = JobOrder("bench", {"type": "external"}, {"type": "external"})
RAW = "INSERT INTO raw_ready SELECT * FROM unnest(%s::text[], %s::text[], %s::text[]) ON CONFLICT DO NOTHING"


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=200_000, help="events of the rates")
    parser.add_argument("--barriers", type=int, default=500, help="barriers whose latency is measured")


def run(given: argparse.Namespace) -> None:
    # Standard output has results only.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with servers() as settings:
        asyncio.run(measured(settings, given))


@contextmanager
def servers() -> Iterator[MatchingSettings]:
    with ExitStack() as stack:
        started = {name: stack.enter_context(new_server(name)) for name in ("postgres", "rabbitmq")}
        home = stack.enter_context(tempfile.TemporaryDirectory())
        named = {"MATCHING_PG_DSN": started["postgres"].url, "MATCHING_AMQP_URL": started["rabbitmq"].url}
        yield FRAME.load({"MATCHING_HOME": home, "MATCHING_HTTP_PORT": "0", **named})


async def measured(settings: MatchingSettings, given: argparse.Namespace) -> None:
    load = round(os.getloadavg()[0], 1)
    tell({**raw(settings, given.n), "load": load}, given.json)
    async with open_parts(settings) as parts:
        service = ApiService(parts)
        tell({**await decoded(parts, service, given.n), "load": load}, given.json)
        tell({**await broker(parts, service, given.n), "load": load}, given.json)
        for line in await latency(parts, given.barriers):
            tell({**line, "load": load}, given.json)


def bodies(jobs: Sequence[str], count: int) -> list[tuple[str, bytes]]:
    """So many messages: those of these jobs in turn, and repeats among them."""
    chance, told = random.Random(5), list[tuple[str, bytes]]()
    names = [*READY] * ASSETS
    for job in jobs:
        about = [(name, {"job_id": job, "asset_id": f"{number:032x}"}) for number, name in enumerate(names)]
        about += [(name, {"job_id": job}) for name in sorted(COMPLETED)]
        chance.shuffle(about)
        for name, document in about:
            body = json.dumps({**document, "event_id": str(uuid_utils.uuid7())}).encode()
            told += [(name, body)] * (2 if chance.random() < REPEATED else 1)
    return told[:count]


def jobs_for(count: int) -> int:
    return count // (4 * ASSETS) + 1


def raw(settings: MatchingSettings, count: int) -> dict[str, object]:
    with psycopg.connect(settings.pg_dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE raw_ready (job text, name text, asset text, PRIMARY KEY (job, name, asset))")
        told = [(name, json.loads(body)) for name, body in bodies([f"job-{n}" for n in range(jobs_for(count))], count)]
        began = time.perf_counter()
        for begin in range(0, count, BATCH_MAX):
            some = told[begin : begin + BATCH_MAX]
            rows = ([each["job_id"] for _, each in some], [name for name, _ in some])
            connection.execute(RAW, (*rows, [each.get("asset_id", "") for _, each in some]), prepare=True)
        seconds = time.perf_counter() - began
        connection.execute("DROP TABLE raw_ready")
    return {"who": "raw", "what": "rows", "n": count, "events_per_s": round(count / seconds)}


async def opened(service: ApiService, count: int) -> list[str]:
    return [await service.jobs.open(ORDER, str(uuid_utils.uuid7())) for _ in range(count)]


async def decoded(parts: MatchingParts, service: ApiService, count: int) -> dict[str, object]:
    """Batches as a bus delivers them, handled by as many lanes as the manager has."""
    told = bodies(await opened(service, jobs_for(count)), count)
    deliveries = [Delivery(QUEUE, n, n, Event(f"m{n}", name, body)) for n, (name, body) in enumerate(told)]
    batches = iter([deliveries[begin : begin + BATCH_MAX] for begin in range(0, count, BATCH_MAX)])
    intake = EventIntake(parts.engine, IntakeOptions(), EventMetrics(CollectorRegistry()), lambda: datetime.now(UTC))

    async def lane() -> None:
        for batch in batches:
            answers = await intake.handle(batch)
            assert not any(answers), "nothing is refused here"

    began, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(lane() for _ in range(LANES)))
    seconds = time.perf_counter() - began
    cpu_us = round((time.process_time() - used) * 1e6 / count, 1)
    return {"who": "headrace", "what": "decoded", "n": count, "events_per_s": round(count / seconds), "cpu_us": cpu_us}


async def broker(parts: MatchingParts, service: ApiService, count: int) -> dict[str, object]:
    """A queue that is full when the manager begins."""
    told = bodies(await opened(service, jobs_for(count)), count)
    consumer, stop = service.consumer, asyncio.Event()
    await consumer.prepare()
    for begin in range(0, count, 1_000):
        some = enumerate(told[begin : begin + 1_000], begin)
        await parts.bus.publish([Event(f"b{n}", name, body) for n, (name, body) in some])
    began = time.perf_counter()
    running = asyncio.create_task(consumer.run(stop))
    while dealt_with(parts.registry) < count:
        await asyncio.sleep(0.005)
    seconds = time.perf_counter() - began
    stop.set()
    await running
    return {"who": "headrace", "what": "broker", "n": count, "events_per_s": round(count / seconds)}


def dealt_with(registry: CollectorRegistry) -> float:
    return sum(
        sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "headrace_matching_events_total" and sample.labels["name"] != PHASE_ENTERED
    )


class TimedTransitions(Transitions):
    """Says when a phase was committed."""

    at: dict[tuple[str, Phase], float]

    async def enter(self, job: str, phase: Phase) -> None:
        await super().enter(job, phase)
        self.at.setdefault((job, phase), time.perf_counter())


async def latency(parts: MatchingParts, barriers: int) -> list[dict[str, object]]:
    """Job after job through all phases; what counts is the last event of each."""
    heard: dict[tuple[str, Phase], asyncio.Future[float]] = {}

    async def listen(deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            told = json.loads(delivery.event.body)
            waiting = heard.get((told["job_id"], Phase(told["phase"])))
            if waiting is not None and not waiting.done():
                waiting.set_result(time.perf_counter())

    service = ApiService(parts_alone(parts), transitions=TimedTransitions)
    assert isinstance(service.transitions, TimedTransitions)
    service.transitions.at = {}
    stop, entered, announced = asyncio.Event(), list[float](), list[float]()
    listener = Consumer(parts.bus, Subscription("bench.listener", (PHASE_ENTERED,)), listen)
    await service.prepare()
    await listener.prepare()
    running = [asyncio.create_task(each.run(stop)) for each in (service, listener)]
    while len(entered) < barriers:
        (job,) = await opened(service, 1)
        for phase, names in CLOSED_BY.items():
            key = job, list(Phase)[list(Phase).index(phase) + 1]
            heard[key] = asyncio.get_running_loop().create_future()
            *first, last = [
                Event(f"{job}{name}", name, json.dumps({"job_id": job, "event_id": str(uuid_utils.uuid7())}).encode())
                for name in names
            ]
            await parts.bus.publish(first)
            began = time.perf_counter()
            await parts.bus.publish([last])
            announced.append(await asyncio.wait_for(heard[key], 60) - began)
            entered.append(service.transitions.at[key] - began)
    stop.set()
    await asyncio.gather(*running)
    return [quantiles("entered", entered), quantiles("announced", announced)]


def parts_alone(parts: MatchingParts) -> MatchingParts:
    """The same parts with metrics of their own: two managers in one process count apart."""
    return MatchingParts(parts.settings, parts.engine, parts.bus, parts.blobs, CollectorRegistry())


def quantiles(what: str, seconds: Sequence[float]) -> dict[str, object]:
    ranked = sorted(seconds)

    def ms(share: float) -> float:
        return round(ranked[min(len(ranked) - 1, int(len(ranked) * share))] * 1_000, 1)

    about = {"p50_ms": ms(0.5), "p99_ms": ms(0.99), "max_ms": ms(1.0)}
    return {"who": "headrace", "what": what, "n": len(ranked), **about}
