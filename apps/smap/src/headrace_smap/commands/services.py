"""`headrace smap project|collector|analytics|insight`, and `up` for all four."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from headrace.commands import Session, of

Port = Annotated[int | None, typer.Option("--port", min=0, max=65_535, help="HTTP port (SMAP_HTTP_PORT); 0: any.")]


def register(app: typer.Typer) -> None:
    app.command()(project)
    app.command()(collector)
    app.command()(analytics)
    app.command()(insight)
    app.command()(up)


def project(context: typer.Context, port: Port = None) -> None:
    """Run the project service: people create projects and watch them.

    The servers are named by SMAP_AMQP_URL, SMAP_REDIS_URL, SMAP_S3_URL and SMAP_PG_DSN; each that is missing has its
    embedded form in SMAP_HOME.
    """
    _serve(of(context), "project", port)


def collector(context: typer.Context, port: Port = None) -> None:
    """Run the collector service: projects become raw posts. Any number may run."""
    _serve(of(context), "collector", port)


def analytics(context: typer.Context, port: Port = None) -> None:
    """Run the analytics service: raw posts become results. Any number may run."""
    _serve(of(context), "analytics", port)


def insight(context: typer.Context, port: Port = None) -> None:
    """Run the insight service: results become aggregates, a report and a notification."""
    _serve(of(context), "insight", port)


def up(
    context: typer.Context,
    rig: Annotated[
        bool, typer.Option("--rig", help="On RabbitMQ, Redis, S3 and PostgreSQL of the rig, started for this.")
    ] = False,
) -> int:
    """Run all four services, each in a process of its own, until Ctrl-C.

    They work on the servers that the environment names; with --rig on servers that are started, and removed, with them.
    When all are ready it says where the reports are, and which variables lead other commands to the same data.
    """
    from headrace_smap.upping import Talk, up_all

    return up_all(rig, os.environ, Talk(of(context).say, _tell))


def _serve(session: Session, name: str, port: int | None) -> None:
    import asyncio

    from headrace.services import bare_errors
    from headrace_smap.logging import to_stderr
    from headrace_smap.serving import run
    from headrace_smap.settings import load

    to_stderr()
    with bare_errors():
        asyncio.run(run(name, load(os.environ, http_port=port), _tell))


def _tell(line: str) -> None:
    print(line, file=sys.stdout, flush=True)
