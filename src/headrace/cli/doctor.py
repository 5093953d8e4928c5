"""`headrace doctor`: what is wrong with the surroundings, and what to do about it."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace import __version__, control
from headrace.cli.failures import Exit
from headrace.cli.session import Session, of
from headrace.core.checks import Check, Health, bad, fine, warning
from headrace.core.errors import CallerError, HeadraceError
from headrace.core.schedules import FireOutcome, ScheduleView

if TYPE_CHECKING:
    from headrace.core.jobs import WorkerView
    from headrace.ports.backend import Backend
    from headrace.ports.parts import Parts
    from headrace.settings import Settings

UNATTENDED_S = 60.0
_MARKS = {Health.OK: "[green]ok     [/]", Health.WARNING: "[yellow]warning[/]", Health.BAD: "[red]bad    [/]"}


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    context: typer.Context,
    flows: Annotated[
        list[str] | None, typer.Argument(metavar="FLOW", help="Flows whose handlers open jobs need.")
    ] = None,
) -> int:
    """Check the surroundings, and say what to do.

    Looks at versions, settings, the store and where it is kept, its workers, and whether anybody wants the open work.
    Exit code 1 if anything is bad. Changes nothing.
    """
    import asyncio

    session = of(context)
    return answer_checks(session, asyncio.run(_checks(session, flows or [])))


def answer_checks(session: Session, checks: Sequence[Check]) -> int:
    """Tell what was looked at; the exit code says whether anything is bad."""
    healthy = all(check.state is not Health.BAD for check in checks)

    def show(console: Any) -> None:
        for check in checks:
            console.print(f"{_MARKS[check.state]}  {check.name}: ", end="")
            console.print(check.found, markup=False)
            if check.hint:
                console.print(f"         → {check.hint}", markup=False)

    session.answer({"healthy": healthy, "checks": [asdict(check) for check in checks]}, show)
    return Exit.OK if healthy else Exit.FAILED


async def _checks(session: Session, flows: Sequence[str]) -> list[Check]:
    from headrace.core.redaction import redacted
    from headrace.wiring import driver_version, examine, missing, open_store

    checks = [fine("versions", f"headrace {__version__}, Python {platform.python_version()}")]
    try:
        settings = session.settings()
        checks.append(fine("driver", driver_version(settings.store)))
        checks.append(fine("settings", f"store {redacted(settings.store)}, hold {settings.hold_s:g} s"))
        if missing(settings.store):
            checks += await examine(settings.store)
            return [*checks, warning("store", "there is none yet", "headrace jobs submit … makes it")]
        checks += [*_frozen_writer(settings), *await examine(settings.store)]
        if any(check.name in ("file", "store", "schema", "role") and check.state is not Health.OK for check in checks):
            return checks
        store = await open_store(settings.store)
    except HeadraceError as error:
        return [*checks, bad("store", str(error), error.hint)]
    try:
        checks.append(fine("store", "opens"))
        checks += [check async for check in _work(store, flows)]
    except CallerError:
        # A flow that was named wrongly says nothing about the surroundings.
        raise
    except HeadraceError as error:
        checks.append(bad("store", str(error), error.hint))
    finally:
        await store.close()
    return checks


def _frozen_writer(settings: Settings) -> Iterator[Check]:
    """On SQLite a process frozen inside a write stops everybody; nobody but its own supervisor may kill it."""
    from headrace.runtime.seams import RealClock
    from headrace.runtime.supervisor import stuck_writer
    from headrace.wiring import StoreKind, parse

    address = parse(settings.store)
    if address.service is not StoreKind.SQLITE or address.in_memory:
        return
    pid = stuck_writer(Path(f"{address.location}-writer"), RealClock().monotonic() - settings.hold_s / 3)
    if pid is not None:
        yield bad("writer", f"process {pid} is frozen inside a write and stops the store", f"kill -9 {pid}")
    else:
        yield fine("writer", "nobody is stuck inside a write")


async def _work(store: Parts, flows: Sequence[str]) -> AsyncIterator[Check]:
    start = f"headrace worker {' '.join(flows or ['app:flow'])}"
    listed = await store.workers()
    gone = [worker for worker in listed if _is_gone(worker)]
    workers = [worker for worker in listed if worker not in gone]
    for worker in gone:
        found = f"{worker.host}:{worker.pid} ended without a goodbye"
        yield warning("workers", found, f"nothing: what it held ({worker.claims} claims) comes back within a hold time")
    if workers:
        names = ", ".join(f"{worker.host}:{worker.pid} ({worker.claims} claims)" for worker in workers)
        yield fine("workers", names)
        async for check in _unattended(store):
            yield check
    elif await control.idle(store):
        yield fine("workers", "none, and no job is open")
    else:
        yield warning("workers", "none, and jobs are open", start)
    for check in _schedules(await store.schedules.look(), start):
        yield check
    if flows:
        async for check in _handlers(store, flows):
            yield check


def _is_gone(worker: WorkerView) -> bool:
    """Whether a worker of this machine is no process any more; of others only their renewals tell."""
    if worker.host != socket.gethostname():
        return False
    try:
        os.kill(worker.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


async def _unattended(store: Backend) -> AsyncIterator[Check]:
    """A worker does not say which flows it has; work that nobody touches for a while does."""
    from headrace.runtime.seams import RealClock

    for left in await control.unattended(store, RealClock().wall() - UNATTENDED_S):
        found = f"{left.waiting:,} items wait in {left.flow}/{left.stage} and nobody holds any"
        yield warning("stages", found, "do the workers have this flow? (items that are not due yet wait as well)")


def _schedules(views: Sequence[ScheduleView], start: str) -> Iterator[Check]:
    """Schedules that do not fire though somebody may think so."""
    troubled = False
    for view in views:
        name, last = view.schedule.name, view.fires[0] if view.fires else None
        found, hint = "", f"headrace schedules remove {name}"
        if view.state == "undeclared":
            found = f"{name} is not declared any more and does not fire"
        elif view.state == "no worker":
            found, hint = f"no running worker has the flow {view.schedule.flow!r} of {name}", start
        elif last is not None and last.outcome is FireOutcome.REFUSED:
            found = f"{name} could not submit its last job: {last.reason}"
        if found:
            troubled = True
            yield warning("schedules", found, hint)
    if views and not troubled:
        yield fine("schedules", f"{len(views):,}, and a worker has the flow of each")


async def _handlers(store: Backend, flows: Sequence[str]) -> AsyncIterator[Check]:
    from headrace.cli.flows import load_flows

    known = {(flow.name, spec.name) for flow in load_flows(flows) for spec in flow.graph.stages}
    left = await control.unwanted(store, known)
    for work in left:
        found = f"job {work.job}: no handler for {work.flow}/{work.stage} ({work.waiting:,} waiting)"
        yield warning("handlers", found, "start a worker with the code that submitted it")
    if not left:
        yield fine("handlers", "every open stage has a handler")
