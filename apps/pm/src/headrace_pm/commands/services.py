"""`headrace pm all|scan|worker|mover|clickhouse`, `init` before them and `up` for all of them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Annotated

import typer

from headrace.commands import of, service_commands, tell


def register(app: typer.Typer) -> None:
    from headrace_pm.frame import FRAME

    app.command()(init)
    service_commands(app, FRAME)
    app.command()(up)


def init(context: typer.Context) -> None:
    """Make the tables in the database of PM_MYSQL_DSN, or in PM_HOME. What is there is left as it is.

    Tables that other programs made are adopted; `headrace pm doctor` says where they are weaker than ours.
    """
    import asyncio

    from headrace_pm.cutover.mode import open_record
    from headrace_pm.frame import FRAME
    from headrace_pm.work.pipeline import tables_of

    settings = FRAME.load(os.environ)

    async def made() -> None:
        async with tables_of(settings):
            if not settings.is_embedded:
                # Services read it, and their user need not have the right to make tables.
                async with open_record(settings):
                    pass

    asyncio.run(made())
    where = str(settings.home.absolute()) if settings.is_embedded else "the database of PM_MYSQL_DSN"
    of(context).answer({"tables": where}, lambda console: console.print(f"all tables are in {where}"))


def up(
    context: typer.Context,
    rig: Annotated[
        bool, typer.Option("--rig", help="On MariaDB, Redis, Kafka, FTP and ClickHouse of the rig, started for this.")
    ] = False,
) -> int:
    """Run everything, each service in its process, until Ctrl-C: `all`, and `clickhouse` where its address is set.

    With --rig on servers that are started, and removed, with them. When all are ready it says which variables lead
    other commands to the same data.
    """
    import asyncio

    from headrace.services import Talk
    from headrace_pm import frame

    session = of(context)
    with ExitStack() as stack:
        servers = None
        if rig:
            from headrace_pm.rig_servers import rig_servers

            servers = stack.enter_context(rig_servers(session.say))
        return asyncio.run(frame.up(os.environ, servers, Talk(session.say, tell)))
