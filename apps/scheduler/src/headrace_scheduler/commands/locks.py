"""`headrace scheduler locks …`: the lock client for people, and for programs in other languages."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import Exit, command_group, of

if TYPE_CHECKING:
    from headrace.ports import Lease
    from headrace.services import LockClient, LockResult
    from headrace_scheduler.parts import OpenedTables

TTL_MS_MIN = 100
Resource = Annotated[str, typer.Argument(metavar="RESOURCE", help="The name of the lock, such as job:7.")]
Holder = Annotated[str, typer.Option("--holder", help="Who holds it; two holders never share a name.")]
Token = Annotated[int, typer.Option("--token", help="The fencing token that acquire answered with.")]
TtlMs = Annotated[int, typer.Option("--ttl-ms", min=TTL_MS_MIN, help="Held for so long, unless it is renewed.")]
TimeoutMs = Annotated[int, typer.Option("--timeout-ms", min=0, help="Try for so long; 0: once.")]


def register(app: typer.Typer) -> None:
    locks = command_group("locks", "Acquire, renew, release and watch locks.")
    for command in (acquire, renew, release, show, watch, run):
        locks.command()(command)
    locks.command("list")(list_locks)
    app.add_typer(locks)


def acquire(
    context: typer.Context, resource: Resource, holder: Holder, ttl_ms: TtlMs, timeout_ms: TimeoutMs = 0
) -> int:
    """Take a lock that is free or has expired. Exit 4 if another holder has it."""
    import asyncio

    async def work() -> LockResult:
        async with _opened() as (_, client):
            return await client.acquire(resource, holder, ttl_ms / 1_000, timeout_ms / 1_000)

    result = asyncio.run(work())
    document = dict(result.document())
    # People are told who has it instead of a token that is not theirs.
    shown = document if result.acquired else {"acquired": False, "holder": result.holder, **document}
    shown = {name: value for name, value in shown.items() if value is not None}
    of(context).answer(document, lambda console: console.print(_line(shown)))
    return Exit.OK if result.acquired else Exit.CONFLICT


def renew(context: typer.Context, resource: Resource, holder: Holder, token: Token, ttl_ms: TtlMs) -> int:
    """Hold on for another --ttl-ms from now. Exit 4 if the lock is lost."""
    import asyncio

    async def work() -> dict[str, Any]:
        async with _opened() as (opened, client):
            renewed = await client.renew(resource, holder, token, ttl_ms / 1_000)
            lock = _shown(await opened.leases.look(resource))
            # A token is a right, and that of another holder is for nobody else.
            return {"renewed": renewed, **lock, **({} if renewed or not lock else {"token": None})}

    found = asyncio.run(work())
    return _answer(context, found, found["renewed"])


def release(
    context: typer.Context,
    resource: Resource,
    holder: Annotated[str, typer.Option("--holder", help="Who holds it.")] = "",
    token: Annotated[int, typer.Option("--token", help="The fencing token that acquire answered with.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Whoever holds it; asks first, and is audited.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> int:
    """Let a lock go. Exit 4 if it is another holder's by now, or nobody's."""
    import asyncio

    from headrace.errors import CallerError

    if not force and not (holder and token):
        raise CallerError("release needs --holder and --token", "those of acquire; or --force, whoever holds it")
    if force and not yes:
        typer.confirm(
            f"Release {resource}, whoever holds it? Its holder goes on until it notices.", abort=True, err=True
        )

    async def work() -> dict[str, Any]:
        async with _opened() as (opened, client):
            if force:
                return await _forced(opened, resource)
            return {"released": await client.release(resource, holder, token), "resource": resource}

    found = asyncio.run(work())
    return _answer(context, found, found["released"])


def show(context: typer.Context, resource: Resource) -> int:
    """Show one lock. Exit 3 if there is none of this name."""
    import asyncio

    from headrace.errors import NotFound

    async def work() -> dict[str, Any]:
        async with _opened() as (opened, _):
            return _shown(await opened.leases.look(resource))

    found = asyncio.run(work())
    if not found:
        raise NotFound(f"nobody holds {resource}")
    return _answer(context, found, True)


def list_locks(context: typer.Context) -> int:
    """List all locks that are held, and those that have expired."""
    import asyncio

    async def work() -> list[dict[str, Any]]:
        async with _opened() as (opened, _):
            return [_shown(lease) async for lease in opened.leases.leases()]

    found = asyncio.run(work())
    of(context).answer({"locks": found}, lambda console: console.print("\n".join(map(_line, found))))
    return Exit.OK


def watch(
    context: typer.Context,
    interval_ms: Annotated[int, typer.Option("--interval-ms", min=50, help="How often to look.")] = 500,
    count: Annotated[int, typer.Option("--count", min=0, help="End after so many changes; 0: never.")] = 0,
) -> int:
    """Tell every change of a lock until Ctrl-C. Each is a line; with --json each is one document."""
    import asyncio
    import json

    from headrace.commands import tell

    async def work() -> None:
        left, before = count, dict[str, dict[str, Any]]()
        async with _opened() as (opened, _):
            while True:
                now = {lease.name: _shown(lease) async for lease in opened.leases.leases()}
                for change in _changes(before, now):
                    tell(json.dumps(change) if of(context).json else f"{change['change']:<9} {_line(change)}")
                    left -= 1
                    if left == 0:
                        return
                before = now
                await asyncio.sleep(interval_ms / 1_000)

    asyncio.run(work())
    return Exit.OK


def run(
    context: typer.Context,
    resource: Resource,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help="The command and its arguments.")],
    holder: Annotated[str, typer.Option("--holder", help="Who holds it; made up if it is not given.")] = "",
    timeout_ms: TimeoutMs = 0,
) -> int:
    """Run a command while the lock is held, for LOCK_TTL_MS at a time.

    The command finds FENCING_TOKEN, FENCING_RESOURCE and JOB_ID in its environment. It is killed while the lock is
    still held if the lock cannot be renewed; then, and if the lock cannot be taken, this ends with 4. Otherwise it ends
    with what the command ended with.
    """
    import asyncio

    return asyncio.run(_guarded(context, resource, command, holder, timeout_ms))


async def _guarded(context: typer.Context, resource: str, argv: list[str], holder: str, timeout_ms: int) -> int:
    import socket

    from headrace_scheduler.frame import FRAME
    from headrace_scheduler.locks.guarded_command import GuardedCommand, run_guarded

    session, ttl_s = of(context), FRAME.load(os.environ).lock_ttl_s
    holder = holder or f"{socket.gethostname()}:{os.getpid()}"
    async with _opened() as (_, client):
        lock = await client.acquire(resource, holder, ttl_s, timeout_ms / 1_000)
        if not lock.acquired:
            session.say(f"headrace: {resource} is held by {lock.holder} until {lock.document()['expire_at']}")
            return Exit.CONFLICT
        ended = await run_guarded(client, GuardedCommand(resource, holder, ttl_s, argv, os.environ), lock.token)
    if ended.lost:
        session.say(f"headrace: the lock {resource} was lost, and the command was killed")
        return Exit.CONFLICT
    return ended.code


@asynccontextmanager
async def _opened() -> AsyncIterator[tuple[OpenedTables, LockClient]]:
    from headrace.services import LockClient
    from headrace_scheduler.frame import FRAME
    from headrace_scheduler.parts import open_tables

    async with open_tables(FRAME.load(os.environ)) as opened:
        yield opened, LockClient(opened.leases)


async def _forced(opened: OpenedTables, resource: str) -> dict[str, Any]:
    import getpass
    from datetime import UTC, datetime

    from headrace_scheduler.tables.audit_events import AuditEvent, AuditEvents

    lease = await opened.leases.look(resource)
    if lease is None or not lease.holder:
        return {"released": False, "resource": resource}
    # Written first: what was not audited is not done.
    held = f"holder={lease.holder} token={lease.fence}"
    event = AuditEvent(datetime.now(UTC), getpass.getuser(), "lock.force_release", resource, held)
    await AuditEvents(opened.tables).add(event)
    return {"released": await opened.leases.release(resource, lease.fence), **_shown(lease)}


def _shown(lease: Lease | None) -> dict[str, Any]:
    from headrace_scheduler.locks.lock_documents import lease_document

    return {} if lease is None or not lease.holder else lease_document(lease)


def _changes(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What is new, what was taken over, renewed or has expired, and what is gone."""
    told = []
    for name, lock in now.items():
        old = before.get(name)
        if old is None:
            told.append({"change": "held", **lock})
        elif old["token"] != lock["token"]:
            told.append({"change": "taken", **lock})
        elif lock["expired"] and not old["expired"]:
            told.append({"change": "expired", **lock})
    return told + [{"change": "released", **lock} for name, lock in before.items() if name not in now]


def _answer(context: typer.Context, document: dict[str, Any], granted: bool) -> int:
    of(context).answer(document, lambda console: console.print(_line(document)))
    return Exit.OK if granted else Exit.CONFLICT


def _line(document: dict[str, Any]) -> str:
    return "  ".join(f"{name}={value}" for name, value in document.items() if name != "change")
