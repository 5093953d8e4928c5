"""`headrace scheduler purge`: delete what ended before a moment."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import Exit, of

if TYPE_CHECKING:
    from headrace_scheduler.parts import SchedulerParts


def register(app: typer.Typer) -> None:
    app.command()(purge)


def purge(
    context: typer.Context,
    before: Annotated[
        str, typer.Option("--before", help="A time such as 2026-01-31T00:00:00Z: what ended earlier goes.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would go, and delete nothing.")] = False,
) -> int:
    """Delete jobs that ended before a moment, dead ones too, with their runs, results and token counters.

    What waits or runs stays, whenever it was made. A purge that was cut off is made again by the same command. It is
    audited.
    """
    import asyncio

    async def work() -> dict[str, Any]:
        from headrace_scheduler.frame import FRAME
        from headrace_scheduler.parts import open_parts

        async with open_parts(FRAME.load(os.environ)) as parts:
            moment = _moment(before)
            if not dry_run:
                await _audit(parts, before)
            return {"before": before, "dry_run": dry_run, "jobs": await _purged(parts, moment, dry_run)}

    found = asyncio.run(work())
    word = "would be deleted" if dry_run else "deleted"
    of(context).answer(found, lambda console: console.print(f"{found['jobs']} jobs {word}"))
    return Exit.OK


async def _audit(parts: SchedulerParts, before: str) -> None:
    """Written first: what was not audited is not done."""
    import getpass

    from headrace_scheduler.tables.audit_events import AuditEvent, AuditEvents

    event = AuditEvent(parts.tables.now(), getpass.getuser(), "jobs.purge", f"before {before}", "")
    await AuditEvents(parts.tables.tables).add(event)


async def _purged(parts: SchedulerParts, before: datetime, dry_run: bool) -> int:
    from dataclasses import replace

    from headrace_scheduler.reconciler.purger import START, JobPurger, PurgeLimits
    from headrace_scheduler.tables.used_buckets import UsedBuckets

    tables = parts.tables
    purger = JobPurger(tables, parts.locks, parts.settings.lock_ttl_s, dry_run)
    purged = 0
    for bucket in await UsedBuckets(tables.tables, tables.queues, parts.installation.polled).every():
        after = replace(START, bucket_id=bucket)
        while True:
            page = await purger.page(bucket, after, PurgeLimits(before, before))
            purged += page.purged
            if page.after is None:
                break
            after = page.after
    return purged


def _moment(text: str) -> datetime:
    from headrace.errors import CallerError

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment > datetime.now(UTC):
        raise CallerError(f"--before {text} is no time that has passed, with its zone", "write 2026-01-31T00:00:00Z")
    return moment.astimezone(UTC)
