"""`headrace scheduler calendars …`: days without jobs under a name, which schedules refer to.

Whose they are is said by `--tenant`, which all commands of headrace have.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import Exit, command_group, of

if TYPE_CHECKING:
    from headrace_scheduler.cron.calendars import Calendars

CalendarName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the calendar.")]


def register(app: typer.Typer) -> None:
    calendars = command_group("calendars", "List, show, set and remove calendars that schedules refer to.")
    calendars.command("list")(list_calendars)
    for command in (show, put, remove):
        calendars.command()(command)
    app.add_typer(calendars)


def list_calendars(context: typer.Context) -> int:
    """List all calendars of a tenant."""
    import asyncio

    async def work() -> list[dict[str, Any]]:
        from headrace_scheduler.cron.calendar_routes import calendar_document

        async with _opened(context) as calendars:
            return [calendar_document(each) for each in await calendars.all()]

    found = asyncio.run(work())
    of(context).answer({"calendars": found}, lambda console: console.print("\n".join(map(_line, found))))
    return Exit.OK


def show(context: typer.Context, name: CalendarName) -> int:
    """Show the days of one calendar. Exit 3 if there is none of this name."""
    import asyncio

    async def work() -> dict[str, Any]:
        from headrace_scheduler.cron.calendar_routes import calendar_document

        async with _opened(context) as calendars:
            return calendar_document(await calendars.find(name))

    found = asyncio.run(work())
    of(context).answer(found, lambda console: console.print("\n".join(found["days_out"])))
    return Exit.OK


def put(
    context: typer.Context,
    name: CalendarName,
    days: Annotated[list[str], typer.Argument(metavar="DAY…", help="Dates, days of every year (12-25), or SAT, SUN.")],
) -> int:
    """Make a calendar of these days, or give them to one that is there. Schedules go by it from their next moment on.
    It is audited."""
    import asyncio

    async def work() -> dict[str, Any]:
        from headrace_scheduler.cron.calendar_routes import calendar_document

        async with _opened(context) as calendars:
            return calendar_document(await calendars.put(name, days, _actor()))

    found = asyncio.run(work())
    of(context).answer(found, lambda console: console.print(_line(found)))
    return Exit.OK


def remove(context: typer.Context, name: CalendarName) -> int:
    """Remove a calendar that no schedule refers to. It is audited."""
    import asyncio

    async def work() -> None:
        async with _opened(context) as calendars:
            await calendars.remove(name, _actor())

    asyncio.run(work())
    of(context).answer({"name": name, "status": "removed"}, lambda console: console.print(f"{name}  removed"))
    return Exit.OK


@asynccontextmanager
async def _opened(context: typer.Context) -> AsyncIterator[Calendars]:
    from headrace_scheduler.cron.calendars import Calendars
    from headrace_scheduler.frame import FRAME
    from headrace_scheduler.parts import open_parts
    from headrace_scheduler.tenants.tenant_queue import DEFAULT_TENANT

    async with open_parts(FRAME.load(os.environ)) as parts:
        yield Calendars(parts.tables, of(context).flags.get("tenant") or DEFAULT_TENANT)


def _actor() -> str:
    import getpass

    return getpass.getuser()


def _line(document: dict[str, Any]) -> str:
    return f"{document['name']}  {len(document['days_out'])} days  {document['changed_at']}"
