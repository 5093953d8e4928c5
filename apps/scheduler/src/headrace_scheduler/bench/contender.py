"""A process that runs jobs without headrace's worker: `python -m headrace_scheduler.bench.contender PLAN`.

The plan is a `ContenderPlan` as JSON. It prints a line when the tables are filled, and another with what it found.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.tables import CassandraOptions
from headrace_scheduler.bench.plain_driver import fill, new_jobs, plain_session
from headrace_scheduler.bench.raw_statements import RawReplay, lock_writes, record
from headrace_scheduler.bench.specification_worker import SpecificationWorker

if TYPE_CHECKING:
    from collections.abc import Mapping

SPECIFICATION, RAW, RAW_LOCKS = "specification", "raw", "raw locks"


@dataclass(frozen=True, slots=True)
class ContenderPlan:
    """Which way, on which keyspace, and how many jobs; tables are filled over `fill_url`, which may be the faster line.
    `lanes` are jobs at a time; the specification has one."""

    who: str
    url: str
    fill_url: str
    jobs: int
    buckets: int
    lanes: int = 16


def contend(plan: ContenderPlan) -> Mapping[str, float]:
    """Fill the tables and run; rates are of the run alone."""
    options = CassandraOptions.of(plan.url)
    # What is recorded takes one of the jobs; locks alone leave them waiting, so there are none.
    jobs = new_jobs(plan.jobs + (plan.who != SPECIFICATION), plan.buckets)
    with plain_session(CassandraOptions.of(plan.fill_url)) as filling:
        fill(filling, jobs[:1] if plan.who == RAW_LOCKS else jobs)
    with plain_session(options) as session:
        if plan.who != SPECIFICATION:
            sent = asyncio.run(record(options, plan.buckets))
            replay = RawReplay(session, sent if plan.who == RAW else lock_writes(sent), jobs)
            used = _begin()
            seconds, done = replay.run(plan.lanes), replay.done
        else:
            worker = SpecificationWorker(session, plan.buckets)
            used = _begin()
            seconds = worker.run(plan.jobs)
            done = worker.done
        used = time.process_time() - used
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"jobs": done, "seconds": seconds, "client_cpu_s": used, "client_rss_mb": round(peak_mb, 1)}


def _begin() -> float:
    """Say that it begins: whoever watches the server counts from here."""
    print("{}", flush=True)
    return time.process_time()


if __name__ == "__main__":
    print(json.dumps(contend(ContenderPlan(**json.loads(sys.argv[1])))), flush=True)
