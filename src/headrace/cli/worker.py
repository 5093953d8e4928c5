"""`headrace worker app:flow`: a supervisor and its worker processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from headrace import control
from headrace.cli.session import Session, of
from headrace.core.errors import CallerError
from headrace.runtime.programs import STORE_VARIABLE, worker_program
from headrace.runtime.seams import RealClock
from headrace.runtime.supervisor import Plan, Supervisor
from headrace.settings import Settings, help_for
from headrace.wiring import Service, open_store, parse, watched


def register(app: typer.Typer) -> None:
    app.command()(worker)


def worker(
    context: typer.Context,
    flows: Annotated[list[str], typer.Argument(help="module:attribute, as in app:flow.")],
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
    return asyncio.run(_supervise(session, plan_for(settings, flows, session.debug), settings.store, until_idle))


def plan_for(settings: Settings, flows: Sequence[str], debug: bool = False) -> Plan:
    """How to start the worker processes for these settings."""
    address = parse(settings.store)
    if address.in_memory:
        raise CallerError(
            "a store in memory lives in one process, and a worker is another",
            "name a file: --store sqlite:///headrace.db",
        )
    writer = Path(f"{address.location}-writer") if address.service is Service.SQLITE else None
    environment = {**os.environ, STORE_VARIABLE: settings.store}
    return Plan(
        programs=(worker_program(flows, environment, settings.processes, settings.hold_s, debug),),
        hold_s=settings.hold_s,
        drain_s=settings.drain_s,
        writer=writer,
        check_store=watched(settings.store),
    )


async def _supervise(session: Session, plan: Plan, url: str, until_idle: bool) -> int:
    supervisor = Supervisor(plan, RealClock(), session.say)
    undo = supervisor.obey_signals()
    try:
        if not until_idle:
            return await supervisor.run()
        store = await open_store(url)
        try:
            return await supervisor.run(lambda: control.idle(store))
        finally:
            await store.close()
    finally:
        undo()
