"""`headrace scheduler bench`: how fast locks and jobs are, beside the specification's algorithm and the raw limit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.commands import of

if TYPE_CHECKING:
    from headrace_scheduler.bench.bench_plan import BenchPlan, Finding


def register(app: typer.Typer) -> None:
    app.command()(bench)


def bench(
    context: typer.Context,
    parts: Annotated[
        str, typer.Option("--parts", help="Some of locks, jobs, workers, idle, finished, locked, by commas.")
    ] = "locks,jobs,workers,idle,finished,locked",
    threads: Annotated[str, typer.Option("--threads", help="Lock clients at a time.")] = "4,16",
    ttl_ms: Annotated[str, typer.Option("--ttl-ms", help="How long locks are held.")] = "1000,30000",
    seconds: Annotated[float, typer.Option("--seconds", help="For each mix of locks.", min=0.1)] = 5.0,
    jobs: Annotated[int, typer.Option("--jobs", help="Jobs in each comparison.", min=50)] = 3_000,
    workers: Annotated[int, typer.Option("--workers", help="Worker processes beside one.", min=2)] = 4,
    rounds: Annotated[int, typer.Option("--rounds", help="Of each comparison; the best counts.", min=1)] = 2,
    finished: Annotated[int, typer.Option("--finished", help="Jobs that have run before a poll.", min=1)] = 100_000,
    locked: Annotated[int, typer.Option("--locked", help="Locked jobs before one that is not.", min=1)] = 5_000,
    idle: Annotated[float, typer.Option("--idle", help="Seconds to watch an idle worker.", min=0.5)] = 20.0,
    output: Annotated[Path, typer.Option("--output", "-o", help="A directory for the report.")] = Path("bench-report"),
) -> None:
    """Measure locks and jobs on Cassandra, and write a report.

    Jobs are compared with the algorithm of the specification, one job after another, and with the raw limit: the same
    statements at the same concurrency by the driver alone; directly, and through a proxy that delays every message by
    5 ms. It starts a node of the rig and takes some ten minutes. With CASSANDRA_CONTACT_POINT it uses that one, in a
    keyspace of its own that is dropped at the end; then nothing is delayed. bench.json, CSV files and bench.html with
    plots go to the directory as they come: of a run that is interrupted they hold what was measured, and say so.
    """
    from headrace_scheduler.bench.bench_place import bench_place
    from headrace_scheduler.bench.bench_plan import BenchPlan
    from headrace_scheduler.bench.scheduler_bench import run_bench

    session = of(context)
    sizes = BenchPlan(
        lock_s=seconds,
        jobs=jobs,
        workers=workers,
        rounds=rounds,
        finished=finished,
        locked=locked,
        idle_s=idle,
        delayed_jobs=jobs // 4,
    )
    plan = plan_of(parts, threads, ttl_ms, sizes)
    with bench_place(os.environ, plan.delay_s, session.say) as place:
        findings, files = run_bench(place, plan, lambda finding: session.say(_line(finding)), output)
    written = {"findings": findings, "files": [str(file) for file in files]}
    session.answer(written, lambda console: console.print("\n".join(map(str, files)), markup=False))


def plan_of(parts: str, threads: str, ttl_ms: str, sizes: BenchPlan) -> BenchPlan:
    """The options as a plan; `CallerError` names the one that cannot be used."""
    from dataclasses import replace

    from headrace.errors import CallerError
    from headrace_scheduler.bench.bench_plan import PARTS

    chosen = tuple(part.strip() for part in parts.split(","))
    for part in chosen:
        if part not in PARTS:
            raise CallerError(f"--parts {part} is not measured", f"write some of {', '.join(PARTS)}")
    threads_chosen, ttls_ms = _numbers("--threads", threads), _numbers("--ttl-ms", ttl_ms)
    return replace(sizes, parts=chosen, threads=threads_chosen, ttls_ms=ttls_ms)


def _line(finding: Finding) -> str:
    return "  ".join(f"{name} {value}" for name, value in finding.items())


def _numbers(option: str, text: str) -> tuple[int, ...]:
    from headrace.errors import CallerError

    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and 0 < int(word) <= 1_000_000 for word in words):
        raise CallerError(f"{option} {text} are no numbers", "write them separated by commas, such as 4,16")
    return tuple(int(word) for word in words)
