"""`headrace scheduler schedules …`: look at cron schedules, pause them and remove them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from headrace.commands import Exit, command_group, of

if TYPE_CHECKING:
    from headrace_scheduler.cron.operations import CronOperations

ScheduleId = Annotated[UUID, typer.Argument(metavar="SCHEDULE", help="The id of the schedule.")]


def register(app: typer.Typer) -> None:
    schedules = command_group("schedules", "List, show, pause, resume and remove cron schedules.")
    schedules.command("list")(list_schedules)
    for command in (show, pause, resume, remove):
        schedules.command()(command)
    app.add_typer(schedules)


def list_schedules(context: typer.Context) -> int:
    """List all schedules, the oldest first, with the time of their next job. `POST /jobs` makes them."""
    import asyncio

    async def work() -> list[dict[str, Any]]:
        from headrace_scheduler.cron.documents import schedule_document

        async with _opened() as cron:
            return [schedule_document(each, cron.now()) for each in await cron.all()]

    found = asyncio.run(work())
    of(context).answer({"schedules": found}, lambda console: console.print("\n".join(map(_line, found))))
    return Exit.OK


def show(context: typer.Context, schedule: ScheduleId) -> int:
    """Show one schedule, its next moments and its latest jobs. Exit 3 if there is none of this id."""
    import asyncio

    async def work() -> dict[str, Any]:
        from headrace_scheduler.cron.documents import detail_document

        async with _opened() as cron:
            return detail_document(await cron.show(schedule), cron.now())

    found = asyncio.run(work())
    of(context).answer(found, lambda console: console.print("\n".join(f"{name}: {found[name]}" for name in found)))
    return Exit.OK


def pause(context: typer.Context, schedule: ScheduleId) -> int:
    """Let a schedule fire no more until it is resumed. Moments meanwhile are not made up for. It is audited."""
    return _changed(context, schedule, "pause")


def resume(context: typer.Context, schedule: ScheduleId) -> int:
    """Let a schedule fire again, from now on. It is audited."""
    return _changed(context, schedule, "resume")


def remove(context: typer.Context, schedule: ScheduleId) -> int:
    """Remove a schedule; its jobs stay. It is audited."""
    import asyncio

    async def work() -> None:
        async with _opened() as cron:
            await cron.remove(schedule, _actor())

    asyncio.run(work())
    done = {"schedule_id": str(schedule), "status": "removed"}
    of(context).answer(done, lambda console: console.print(f"{schedule}  removed"))
    return Exit.OK


def _changed(context: typer.Context, schedule: UUID, verb: str) -> int:
    import asyncio

    async def work() -> dict[str, Any]:
        from headrace_scheduler.cron.documents import schedule_document

        async with _opened() as cron:
            change = cron.pause if verb == "pause" else cron.resume
            return schedule_document(await change(schedule, _actor()), cron.now())

    found = asyncio.run(work())
    of(context).answer(found, lambda console: console.print(_line(found)))
    return Exit.OK


@asynccontextmanager
async def _opened() -> AsyncIterator[CronOperations]:
    from headrace_scheduler.cron.fire_creator import FireCreator
    from headrace_scheduler.cron.operations import CronOperations
    from headrace_scheduler.frame import FRAME
    from headrace_scheduler.parts import open_parts

    async with open_parts(FRAME.load(os.environ)) as parts:
        creator = FireCreator(parts.tables, parts.locks, parts.installation.buckets)
        yield CronOperations(parts.tables, creator)


def _actor() -> str:
    import getpass

    return getpass.getuser()


def _line(document: dict[str, Any]) -> str:
    words = ("schedule_id", "status", "schedule", "time_zone", "scheduled_time")
    return "  ".join(str(document[word] or "-") for word in words)
