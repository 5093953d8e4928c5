"""`headrace doctor`: what is wrong with the surroundings, and what to do about it."""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace import __version__, control
from headrace.cli.failures import Exit
from headrace.cli.session import Session, of
from headrace.core.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.ports.backend import Backend
    from headrace.settings import Settings

_MARKS = {"ok": "[green]ok  [/]", "warn": "[yellow]warn[/]", "bad": "[red]bad [/]"}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: `state` is ok, warn or bad."""

    name: str
    state: str
    found: str
    hint: str = ""


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    context: typer.Context,
    flows: Annotated[list[str] | None, typer.Argument(help="Flows whose handlers open jobs need.")] = None,
) -> int:
    """Check the surroundings, and say what to do.

    Looks at versions, settings, the store, its workers and whether anybody wants the open work.
    """
    import asyncio

    session = of(context)
    checks = asyncio.run(_checks(session, flows or []))
    healthy = all(check.state != "bad" for check in checks)

    def show(console: Any) -> None:
        for check in checks:
            console.print(f"{_MARKS[check.state]}  {check.name}: ", end="")
            console.print(check.found, markup=False)
            if check.hint:
                console.print(f"      → {check.hint}", markup=False)

    session.answer({"healthy": healthy, "checks": [asdict(check) for check in checks]}, show)
    return Exit.OK if healthy else Exit.FAILED


async def _checks(session: Session, flows: Sequence[str]) -> list[Check]:
    from headrace.wiring import driver_version, missing, open_store, redacted

    checks = [Check("versions", "ok", f"headrace {__version__}, Python {platform.python_version()}")]
    try:
        settings = session.settings()
        checks.append(Check("driver", "ok", driver_version(settings.store)))
        checks.append(Check("settings", "ok", f"store {redacted(settings.store)}, hold {settings.hold_s:g} s"))
        if missing(settings.store):
            return [*checks, Check("store", "warn", "there is none yet", "headrace jobs submit … makes it")]
        checks += [check async for check in _frozen_writer(settings)]
        store = await open_store(settings.store)
    except HeadraceError as error:
        return [*checks, Check("store", "bad", str(error), error.hint)]
    try:
        checks.append(Check("store", "ok", "opens, and its schema is the one this code needs"))
        checks += [check async for check in _work(store, flows)]
    finally:
        await store.close()
    return checks


async def _frozen_writer(settings: Settings) -> AsyncIterator[Check]:
    """On SQLite a process frozen inside a write stops everybody; nobody but its own supervisor may kill it."""
    from headrace.runtime.seams import RealClock
    from headrace.runtime.supervisor import stuck_writer
    from headrace.wiring import Service, parse

    address = parse(settings.store)
    if address.service is not Service.SQLITE or address.in_memory:
        return
    pid = stuck_writer(Path(f"{address.location}-writer"), RealClock().monotonic() - settings.hold_s / 3)
    if pid is not None:
        yield Check("writer", "bad", f"process {pid} is frozen inside a write and stops the store", f"kill -9 {pid}")
    else:
        yield Check("writer", "ok", "nobody is stuck inside a write")


async def _work(store: Backend, flows: Sequence[str]) -> AsyncIterator[Check]:
    workers = await store.workers()
    idle = await control.idle(store)
    if workers:
        names = ", ".join(f"{worker.host}:{worker.pid} ({worker.claims} claims)" for worker in workers)
        yield Check("workers", "ok", names)
    elif idle:
        yield Check("workers", "ok", "none, and no job is open")
    else:
        yield Check("workers", "warn", "none, and jobs are open", "headrace worker app:flow")
    if flows:
        from headrace.cli.flows import load_flows

        known = {(flow.name, spec.name) for flow in load_flows(flows) for spec in flow.graph.stages}
        left = await control.unwanted(store, known)
        for work in left:
            found = f"job {work.job}: no handler for {work.flow}/{work.stage} ({work.waiting:,} waiting)"
            yield Check("handlers", "warn", found, "start a worker with the code that submitted it")
        if not left:
            yield Check("handlers", "ok", "every open stage has a handler")
