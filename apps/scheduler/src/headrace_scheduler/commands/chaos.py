"""`headrace scheduler chaos`: faults by a seeded plan against the rig, and the account of what came of it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.commands import answer_receipt, demo_folder, environment_without, of

if TYPE_CHECKING:
    from headrace_scheduler.chaos.fault_plan import ChaosSize

# A machine with more processes than cores may need a second or two for a renewal.
LOCK_TTL_MS = 4_000


def register(app: typer.Typer) -> None:
    app.command()(chaos)


def chaos(
    context: typer.Context,
    size: Annotated[str, typer.Option("--size", help="How much: small, or full with 200 kills and more.")] = "small",
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=5, max=86_400, help="Spread the faults over so many seconds.")
    ] = None,
    target: Annotated[
        list[str] | None, typer.Option("--target", help="How often a kind of fault: worker_kill=50; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The plan is drawn from it.")] = 1,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=3, help="Nodes of Cassandra, 1 or 3.")] = 3,
    workers: Annotated[int, typer.Option("--workers", min=2, max=32, help="Worker processes at a time.")] = 4,
    rate: Annotated[float, typer.Option("--rate", min=0.1, max=1_000, help="Jobs that come in a second.")] = 3.0,
    report: Annotated[
        Path | None, typer.Option("--report", help="A directory for scheduler-chaos.md and scheduler-chaos.html.")
    ] = None,
) -> int:
    """Break everything that can break while jobs come in, and count: no job lost, no effect twice.

    Starts Cassandra and PostgreSQL of the rig, a REST interface, workers and reconcilers. Kills and freezes workers,
    kills and pauses nodes, cuts and delays links, takes answers away, and runs workers whose clocks are wrong. Then all
    is whole again, and what was accepted must end. The exit code is 1 if something does not add up, or if a kind of
    fault never happened.
    """
    import asyncio

    from headrace.errors import CallerError, writing_to
    from headrace.pages import save
    from headrace.services import log_to_stderr
    from headrace_scheduler.chaos.chaos_page import chaos_page
    from headrace_scheduler.chaos.chaos_report import markdown
    from headrace_scheduler.chaos.chaos_run import ChaosOptions, ChaosRun
    from headrace_scheduler.chaos.fault_plan import plan_faults
    from headrace_scheduler.chaos.servers import chaos_servers
    from headrace_scheduler.settings import PREFIXES

    if nodes == 2:
        raise CallerError("two nodes have no majority without each other", "--nodes 1 or --nodes 3")
    asked = size_of(size, target or [])
    plan = plan_faults(seed, seconds or asked.seconds, LOCK_TTL_MS / 1_000, asked)
    session = of(context)
    # Of the bank's own lines only what nobody planned; stdout is for the answer.
    log_to_stderr(logging.CRITICAL)
    folder = demo_folder(None, "chaos")
    session.say(f"logs of the processes are in {folder}")
    options = ChaosOptions(plan, LOCK_TTL_MS, workers, rate, folder, environment_without(*PREFIXES))
    with chaos_servers(session.say, nodes) as servers:
        found = asyncio.run(ChaosRun(servers, options, session.say).run())
    if report is not None:
        line = f"headrace scheduler chaos --size {size} --seconds {plan.seconds:g} --seed {seed} --nodes {nodes}"
        line = " ".join([f"{line} --workers {workers} --rate {rate:g}", *(f"--target {each}" for each in target or [])])
        with writing_to(report, "name another by --report"):
            report.mkdir(parents=True, exist_ok=True)
            (report / "scheduler-chaos.md").write_text(markdown(found, line), encoding="utf-8")
            save(chaos_page(found), report / "scheduler-chaos.html")
    return answer_receipt(session, found)


def size_of(name: str, asked: list[str]) -> ChaosSize:
    """The size of that name, with as many faults of each kind as were asked for."""
    from dataclasses import replace

    from headrace.errors import CallerError
    from headrace_scheduler.chaos.fault_plan import SIZES, FaultKind

    if name not in SIZES:
        raise CallerError(f"--size {name} is no size", f"one of {', '.join(SIZES)}")
    found = dict(SIZES[name].targets)
    for text in asked:
        kind, _, count = text.partition("=")
        if kind not in list(FaultKind) or not count.isdecimal() or len(count) > 6:
            raise CallerError(
                f"--target {text} names no fault and its count", f"one of {', '.join(FaultKind)}, then =50"
            )
        found[FaultKind(kind)] = int(count)
    return replace(SIZES[name], targets=found)
