"""`headrace worker app:flow`: a supervisor and its worker processes."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from headrace import control
from headrace.cli.flows import load_flows
from headrace.cli.session import Session, of
from headrace.core.errors import CallerError, OperatorError
from headrace.ports.inspector import Inspector
from headrace.runtime.programs import STORE_VARIABLE, worker_program
from headrace.runtime.seams import RealClock
from headrace.runtime.supervisor import Plan, Supervisor
from headrace.settings import Settings, help_for
from headrace.wiring import StoreKind, open_store, parse, watched

STUCK_LOOK_S = 1.0
# Always all of them, so that a script finds the same keys.
COUNTED = ("restarts", "kills", "frozen", "still")


def register(app: typer.Typer) -> None:
    app.command()(worker)


def worker(
    context: typer.Context,
    flows: Annotated[list[str], typer.Argument(metavar="FLOW", help="module:attribute, as in app:flow.")],
    processes: Annotated[int | None, typer.Option(help=help_for("processes"))] = None,
    hold_s: Annotated[float | None, typer.Option(help=help_for("hold_s"))] = None,
    drain_s: Annotated[float | None, typer.Option(help=help_for("drain_s"))] = None,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when no job is open.")] = False,
) -> int:
    """Run handlers in worker processes until told to drain.

    SIGTERM and SIGINT drain: what is started is finished. A second one stops now. Neither spends an attempt.
    """
    session = of(context)
    settings = session.settings(processes=processes, hold_s=hold_s, drain_s=drain_s)
    plan = plan_for(settings, flows, session.debug)
    if session.json:
        # What handlers print is talk, and stdout is for the one document.
        plan = replace(plan, programs=tuple(replace(program, lines=session.say) for program in plan.programs))
    waiting = Waiting(flows, session.say) if until_idle else None
    supervisor, code = asyncio.run(_supervise(session, plan, settings.store, waiting))
    if waiting is not None and waiting.left:
        raise OperatorError(left_open(waiting.left), "start a worker with the code that submitted them, or cancel them")
    document = {"exit_code": code, **{name: supervisor.counts[name] for name in COUNTED}}
    session.answer(document, lambda _console: None)
    return code


def plan_for(settings: Settings, flows: Sequence[str], debug: bool = False) -> Plan:
    """How to start the worker processes for these settings."""
    address = parse(settings.store)
    if address.in_memory:
        raise CallerError(
            "a store in memory lives in one process, and a worker is another",
            "name a file: --store sqlite:///headrace.db",
        )
    writer = Path(f"{address.location}-writer") if address.service is StoreKind.SQLITE else None
    environment = {**os.environ, STORE_VARIABLE: settings.store}
    return Plan(
        programs=(worker_program(flows, environment, settings.processes, settings.hold_s, debug),),
        hold_s=settings.hold_s,
        drain_s=settings.drain_s,
        writer=writer,
        check_store=watched(settings.store),
    )


class Waiting:
    """Until no job is open, or nothing that is open can be moved by anybody who is there: then `left` says what. If
    there are other workers, which may have what is lacking here, it waits for them and says so."""

    def __init__(self, flows: Sequence[str], say: Callable[[str], None]) -> None:
        self._names, self._say = flows, say
        self._said = ""
        self._known: set[tuple[str, str]] | None = None
        self._looked_at = RealClock().monotonic()
        self._stuck = False
        self.left: list[control.Unwanted] = []

    async def over(self, store: Inspector, own: Collection[int]) -> bool:
        """Asked again and again; `own` are the processes of our workers."""
        if await control.idle(store):
            return True
        now = RealClock().monotonic()
        if now - self._looked_at < STUCK_LOOK_S:
            return False
        self._looked_at = now
        found = await control.out_of_reach(store, self._handled())
        # Twice in a row: between two pages of a list a job may have moved on.
        stuck_before, self._stuck = self._stuck, bool(found)
        if not found or not stuck_before:
            return False
        if not await _others(store, own):
            self.left = found
            return True
        words = f"{left_open(found)}; waiting for other workers"
        if words != self._said:
            self._say(words)
            self._said = words
        return False

    def _handled(self) -> set[tuple[str, str]]:
        """Imported here only when a worker process has done so before: it would tell what is wrong with them."""
        if self._known is None:
            self._known = {(flow.name, stage) for flow in load_flows(self._names) for stage in flow.stages}
        return self._known


async def _others(store: Inspector, own: Collection[int]) -> bool:
    """Whether somebody else works on this store, whose flows we do not know."""
    here = socket.gethostname()
    return any(worker.host != here or worker.pid not in own for worker in await store.workers())


def left_open(left: Sequence[control.Unwanted]) -> str:
    """What nobody here can move, in words."""
    jobs = sorted({work.job for work in left})
    stages = ", ".join(sorted({f"{work.flow}/{work.stage}" for work in left}))
    stay = "1 job stays open" if len(jobs) == 1 else f"{len(jobs):,} jobs stay open"
    return f"{stay}: no handler here for {stages} (the first job is {jobs[0]})"


async def _supervise(session: Session, plan: Plan, url: str, waiting: Waiting | None) -> tuple[Supervisor, int]:
    supervisor = Supervisor(plan, RealClock(), session.say)
    undo = supervisor.obey_signals()
    try:
        if waiting is None:
            return supervisor, await supervisor.run()
        store = await open_store(url)
        try:
            return supervisor, await supervisor.run(lambda: waiting.over(store, supervisor.pids))
        finally:
            await store.close()
    finally:
        undo()
