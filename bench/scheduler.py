"""How fast are the scheduler's locks and jobs, on a real Cassandra?

The same as `headrace scheduler bench`, with a JSON line for each finding: locks under low, medium and high contention,
jobs beside the specification's own algorithm (`specification`) and the raw limit (`raw`), several workers, an idle one,
the poll after many jobs have run, and a job behind locked ones. The report goes to `--output`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rig import tell

from headrace.services import log_to_stderr
from headrace_scheduler.bench.bench_place import bench_place
from headrace_scheduler.bench.bench_plan import PARTS, BenchPlan
from headrace_scheduler.bench.scheduler_bench import run_bench
from headrace_scheduler.commands.bench import plan_of


def main() -> None:
    plan = BenchPlan()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="only JSON lines on stdout")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--threads", default=",".join(map(str, plan.threads)), help="lock clients at a time")
    parser.add_argument("--ttl-ms", default=",".join(map(str, plan.ttls_ms)), help="how long locks are held")
    parser.add_argument("--seconds", type=float, default=plan.lock_s, help="for each mix of locks")
    parser.add_argument("--n", type=int, default=plan.jobs, help="jobs in each comparison")
    parser.add_argument("--workers", type=int, default=plan.workers, help="processes beside one")
    parser.add_argument("--rounds", type=int, default=plan.rounds, help="of each comparison; the best counts")
    parser.add_argument("--finished", type=int, default=plan.finished, help="jobs that have run before a poll")
    parser.add_argument("--locked", type=int, default=plan.locked, help="locked jobs before one that is not")
    parser.add_argument("--idle", type=float, default=plan.idle_s, help="seconds to watch an idle worker")
    parser.add_argument("--output", type=Path, default=Path("bench-report"))
    given = parser.parse_args()
    log_to_stderr()
    sizes = BenchPlan(
        lock_s=given.seconds,
        jobs=given.n,
        delayed_jobs=given.n // 4,
        workers=given.workers,
        rounds=given.rounds,
        finished=given.finished,
        locked=given.locked,
        idle_s=given.idle,
    )
    plan = plan_of(given.parts, given.threads, given.ttl_ms, sizes)
    with bench_place(os.environ, plan.delay_s, lambda text: print(text, file=sys.stderr, flush=True)) as place:
        run_bench(place, plan, lambda finding: tell(finding, given.json), given.output)


if __name__ == "__main__":
    main()
