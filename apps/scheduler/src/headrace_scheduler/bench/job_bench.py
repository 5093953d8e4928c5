"""Jobs end to end: ours beside the specification's algorithm and the raw limit, each in processes of its own."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from headrace.errors import OperatorError
from headrace.tables import CassandraOptions
from headrace.testing import ServiceProcess
from headrace_scheduler.bench.bench_place import BenchPlace, Usage, url_of, usage, variables
from headrace_scheduler.bench.bench_plan import IN_PROGRESS, JOBS, Finding
from headrace_scheduler.bench.contender import SPECIFICATION, ContenderPlan
from headrace_scheduler.bench.plain_driver import fill, new_jobs, plain_session
from headrace_scheduler.frame import service_program

OURS = "headrace"
DIRECT, DELAYED = "direct", "delayed"
# Answering how far it is costs a worker some milliseconds: four times a second it was a sixth of what the worker did.
LOOK_S = 1.0
RUN_S_MAX = 600.0
# The first jobs of a process wait for its connections, the last ones leave places empty: neither is a rate.
BEGIN_SHARE, END_SHARE = 0.15, 0.85


@dataclass(frozen=True, slots=True)
class JobLoad:
    """What is run where: `line` is direct or delayed."""

    line: str
    jobs: int
    buckets: int
    workers: int = 1
    in_progress: int = IN_PROGRESS

    def options(self, place: BenchPlace) -> CassandraOptions:
        options = place.direct if self.line == DIRECT else place.delayed
        if options is None:
            raise OperatorError("there is no proxy before this Cassandra", "leave CASSANDRA_CONTACT_POINT out")
        return options


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    done: float
    client: Usage
    server: Usage


def contender(place: BenchPlace, who: str, load: JobLoad) -> Finding:
    """The specification's algorithm or the raw limit, in a process of its own."""
    return asyncio.run(_contender(place, who, load))


def ours(place: BenchPlace, load: JobLoad) -> Finding:
    """Worker processes as a user starts them, on jobs that wait already."""
    with plain_session(place.direct) as session:
        fill(session, new_jobs(load.jobs, load.buckets))
    return asyncio.run(_ours(place, load))


async def _contender(place: BenchPlace, who: str, load: JobLoad) -> Finding:
    plan = ContenderPlan(
        who, url_of(load.options(place)), url_of(place.direct), load.jobs, load.buckets, load.in_progress
    )
    command = (sys.executable, "-m", "headrace_scheduler.bench.contender", json.dumps(asdict(plan)))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    marks: list[Usage] = []
    found: dict[str, float] = {}
    async for line in process.stdout:
        marks.append(place.server())
        found = json.loads(line)
    if await process.wait() or len(marks) != 2:
        raise OperatorError(f"{who} could not be measured", "its error stands above")
    done, seconds = found["jobs"], found["seconds"]
    client = Usage(found["client_cpu_s"], found["client_rss_mb"])
    server = Usage(marks[1].cpu_s - marks[0].cpu_s, marks[1].rss_mb)
    return _finding(who, load, (done, seconds), client, server)


async def _ours(place: BenchPlace, load: JobLoad) -> Finding:
    with TemporaryDirectory(prefix="scheduler-bench-") as folder:
        environment = variables(load.options(place)) | {
            "WORKER_MAX_IN_PROGRESS": str(load.in_progress),
            "WORKER_BUCKETS": str(load.buckets),
        }
        program = service_program("worker", environment)
        async with AsyncExitStack() as stack, httpx.AsyncClient(trust_env=False) as client:
            starting = [
                stack.enter_async_context(ServiceProcess(program, Path(folder) / f"{number}.log"))
                for number in range(load.workers)
            ]
            workers = await asyncio.gather(*starting)
            first, last = await _samples(client, workers, place, load.jobs)
    done, seconds = last.done - first.done, last.at - first.at
    used = Usage(last.client.cpu_s - first.client.cpu_s, last.client.rss_mb)
    return _finding(
        OURS, load, (done, seconds), used, Usage(last.server.cpu_s - first.server.cpu_s, last.server.rss_mb)
    )


async def _samples(
    client: httpx.AsyncClient, workers: Sequence[ServiceProcess], place: BenchPlace, jobs: int
) -> tuple[_Sample, _Sample]:
    """When the rate begins to count, and when it ends. All jobs are run: the next measurement finds none of them."""
    begun = _Sample(time.perf_counter(), 0, Usage(), place.server())
    first: _Sample | None = None
    last: _Sample | None = None
    async with asyncio.timeout(RUN_S_MAX):
        while True:
            done = sum(await asyncio.gather(*(completed(client, worker) for worker in workers)))
            used = [usage(worker.pid) for worker in workers]
            total = Usage(sum(each.cpu_s for each in used), max(each.rss_mb for each in used))
            sample = _Sample(time.perf_counter(), done, total, place.server())
            if first is None and done >= jobs * BEGIN_SHARE:
                first = sample
            elif first is not None and last is None and done >= jobs * END_SHARE:
                last = sample
            if first is not None and done >= jobs:
                # Few jobs may be done between two looks.
                return (begun if first is sample else first), last or sample
            await asyncio.sleep(LOOK_S)


async def completed(client: httpx.AsyncClient, worker: ServiceProcess) -> float:
    """How many runs a worker has completed, as it says itself."""
    try:
        answer = await client.get(f"{worker.url}/metrics", timeout=30.0)
    except httpx.TransportError as error:
        raise OperatorError(f"worker {worker.pid} does not answer any more: {error!r}") from error
    name = 'jobs_processed_total{status="completed"} '
    return next(float(line.removeprefix(name)) for line in answer.text.splitlines() if line.startswith(name))


def _finding(who: str, load: JobLoad, ran: tuple[float, float], client: Usage, server: Usage) -> Finding:
    done, seconds = ran
    return {
        "part": JOBS,
        "who": who,
        "line": load.line,
        "workers": load.workers,
        "in_progress": 1 if who == SPECIFICATION else load.in_progress,
        "jobs": round(done),
        "jobs_per_s": round(done / seconds, 1),
        "client_cpu_ms_per_job": round(client.cpu_s / done * 1e3, 2),
        "server_cpu_ms_per_job": round(server.cpu_s / done * 1e3, 2),
        "client_rss_mb": round(client.rss_mb, 1),
        "server_rss_mb": round(server.rss_mb, 1),
    }
