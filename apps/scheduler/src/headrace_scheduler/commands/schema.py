"""`headrace scheduler schema`: make the keyspace and its tables, or change what is recorded of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import of

if TYPE_CHECKING:
    from headrace_scheduler.settings import SchedulerSettings


def register(app: typer.Typer) -> None:
    app.command()(schema)


def schema(
    context: typer.Context,
    buckets: Annotated[
        int | None, typer.Option("--buckets", min=1, max=4_096, help="Change the recorded WORKER_BUCKETS.")
    ] = None,
    datacentre: Annotated[
        list[str] | None,
        typer.Option("--datacentre", help="NAME=REPLICAS: NetworkTopologyStrategy with so many there; repeatable."),
    ] = None,
) -> None:
    """Make the keyspace and its tables; what is there stays.

    A missing keyspace gets as many replicas as there are nodes, at most 3. A keyspace that was made with other settings
    is refused. With --buckets the recorded number of buckets is changed: start all services again with
    WORKER_BUCKETS at the new number.
    """
    import asyncio

    from headrace_scheduler.frame import FRAME

    settings = FRAME.load(os.environ, buckets=buckets)
    made = asyncio.run(_applied(settings, buckets is not None, datacentre or []))
    session = of(context)
    session.answer(made, lambda console: console.print(_told(settings, made)))


async def _applied(settings: SchedulerSettings, change: bool, datacentres: list[str]) -> dict[str, Any]:
    from headrace_scheduler.parts import open_tables
    from headrace_scheduler.tables.installation import change_buckets, installation

    recorded: Mapping[str, str] = {}
    if settings.home is None:
        recorded = await _keyspace(settings, datacentres)
    agree = change_buckets if change else installation
    async with open_tables(settings) as opened:
        found = await agree(opened.tables, settings.buckets)
    return {"keyspace": settings.keyspace, "buckets": found.buckets, "buckets_polled": found.polled, **recorded}


async def _keyspace(settings: SchedulerSettings, datacentres: list[str]) -> Mapping[str, str]:
    from headrace.tables import CassandraOptions, Replication, Strategy, apply_schema
    from headrace_scheduler.tables.cassandra_tables import schema_part

    replication = Replication(Strategy.TOPOLOGY, dict(map(_replicas, datacentres))) if datacentres else None
    return await apply_schema(CassandraOptions.of(settings.cassandra_url), replication, [schema_part()])


def _replicas(word: str) -> tuple[str, int]:
    from headrace.errors import CallerError

    name, _, count = word.partition("=")
    if not name or not count.isdecimal():
        raise CallerError(f"--datacentre {word} is not NAME=REPLICAS", "write --datacentre dc1=3")
    return name, int(count)


def _told(settings: SchedulerSettings, made: Mapping[str, Any]) -> str:
    where = f"the keyspace {settings.keyspace}" if settings.home is None else str(settings.home)
    return f"{where} is ready, with jobs in {made['buckets']} buckets"
