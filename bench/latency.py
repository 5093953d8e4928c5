"""How soon does an idle worker start on a job?

Jobs of one item are submitted one after another to an idle worker. `pickup` is the time from before the submit to the
start of the handler; `after_commit` counts from the submit's answer. `commit` is what one small durable commit takes
in the same run: no pick-up can be quicker than the commits it consists of.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from flows import TIME, TIMES_VARIABLE, Tick, latency
from rig import fresh_store, options, percentile, tell, workers

import headrace

PAUSE_S = 0.02
WAIT_S = 10.0


async def measure(url: str, count: int, embedded: bool) -> dict[str, object]:
    times = Path(os.environ[TIMES_VARIABLE])
    times.write_bytes(b"")
    whole, after = [], []
    async with headrace.connect(url) as engine, _worker(engine, url, embedded):
        for number in range(count):
            # The worker has gone back to sleep by then, so each job meets an idle one.
            await asyncio.sleep(PAUSE_S)
            before = time.monotonic()
            job = await engine.submit(latency, Tick(number))
            committed = time.monotonic()
            # Looking for the end would keep this process, and in it the worker, from picking the job up.
            await asyncio.sleep(PAUSE_S)
            await engine.wait(job, WAIT_S)
            started = TIME.unpack(times.read_bytes()[-TIME.size :])[1]
            whole.append((started - before) * 1000)
            after.append(max(0.0, started - committed) * 1000)
        commits = await _commits(engine, count)
    found: dict[str, object] = {"where": "in_process" if embedded else "across_processes", "n": count}
    for name, values in (("pickup", whole), ("after_commit", after), ("commit", commits)):
        found |= {f"{name}_p50_ms": round(percentile(values, 0.5), 2)}
        found |= {f"{name}_p99_ms": round(percentile(values, 0.99), 2)}
    return found


@asynccontextmanager
async def _worker(engine: headrace.Engine, url: str, embedded: bool) -> Any:
    if embedded:
        async with engine.worker(latency) as worker:
            yield worker
    else:
        async with workers(url, "latency") as supervisor:
            yield supervisor


async def _commits(engine: headrace.Engine, count: int) -> list[float]:
    """What a small durable write takes: one job is paused and resumed."""
    job = await engine.submit(latency, Tick(-1), delay_s=3_600)
    found = []
    for turn in range(count):
        before = time.monotonic()
        await (engine.pause(job) if turn % 2 else engine.resume(job))
        found.append((time.monotonic() - before) * 1000)
    await engine.cancel(job)
    return found


def main() -> None:
    parser = options(__doc__ or "")
    parser.add_argument("--n", type=int, default=300, help="how many jobs")
    arguments = parser.parse_args()
    with tempfile.NamedTemporaryFile(prefix="headrace-times-") as times:
        os.environ[TIMES_VARIABLE] = times.name
        for embedded in (True, False):
            with fresh_store(arguments.store) as url:
                found = asyncio.run(measure(url, arguments.n, embedded))
            tell({"who": "headrace", "store": arguments.store, **found}, arguments.json)


if __name__ == "__main__":
    main()
