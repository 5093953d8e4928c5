"""`headrace scheduler all|api|worker|reconciler|orders`, `up` for what works on jobs, and what checks them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Annotated

import typer

from headrace.commands import of, service_commands, tell


def register(app: typer.Typer) -> None:
    from headrace_scheduler.frame import FRAME
    from headrace_scheduler.orders.frame import ORDERS

    service_commands(app, FRAME, ORDERS)
    app.command()(up)


def up(
    context: typer.Context,
    rig: Annotated[
        bool, typer.Option("--rig", help="On Cassandra, PostgreSQL and Prometheus of the rig, started for this.")
    ] = False,
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, max=3, help="Nodes of Cassandra, 1 or 3; else what memory allows.")
    ] = None,
) -> int:
    """Run REST interface, worker, reconciler and, where it has a database, orders, each in its process, until Ctrl-C.

    They work in SCHEDULER_HOME, or on the Cassandra that the environment names; with --rig on servers that are started,
    and removed, with them. When all are ready it says which variables lead other commands to the same data.
    """
    import asyncio

    from headrace.errors import CallerError
    from headrace.services import Talk
    from headrace_scheduler import frame

    if nodes == 2:
        raise CallerError("two nodes have no majority without each other", "--nodes 1 or --nodes 3")
    session = of(context)
    with ExitStack() as stack:
        servers = None
        if rig:
            from headrace_scheduler.rig_servers import rig_servers

            servers = stack.enter_context(rig_servers(session.say, nodes))
        return asyncio.run(frame.up(os.environ, servers, Talk(session.say, tell)))
