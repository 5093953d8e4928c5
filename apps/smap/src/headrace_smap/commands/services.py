"""`headrace smap project|collector|analytics|insight`, and `up` for all four."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Annotated

import typer

from headrace.commands import of, service_commands, tell


def register(app: typer.Typer) -> None:
    from headrace_smap.frame import FRAME

    service_commands(app, FRAME)
    app.command()(up)


def up(
    context: typer.Context,
    rig: Annotated[
        bool, typer.Option("--rig", help="On RabbitMQ, Redis, S3 and PostgreSQL of the rig, started for this.")
    ] = False,
    simulated: Annotated[
        bool,
        typer.Option("--simulated", help="Make up posts of platforms that nothing serves, as SMAP_SIMULATED=1 does."),
    ] = False,
) -> int:
    """Run all four services, each in a process of its own, until Ctrl-C.

    They work on the servers that the environment names; with --rig on servers that are started, and removed, with them.
    When all are ready it says where the reports are, and which variables lead other commands to the same data.
    """
    import asyncio

    from headrace.services import Talk
    from headrace_smap import frame
    from headrace_smap.rig_servers import rig_servers

    session = of(context)
    with ExitStack() as stack:
        shared = {"SMAP_HOME": str(frame.FRAME.load(os.environ).home)}
        if simulated:
            shared["SMAP_SIMULATED"] = "1"
        if rig:
            shared.update(stack.enter_context(rig_servers(session.say)))
        return asyncio.run(frame.up(os.environ, shared, Talk(session.say, tell)))
