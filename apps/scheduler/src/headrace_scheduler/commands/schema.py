"""`headrace scheduler schema`: make the keyspace and its tables, or change what is recorded of them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import of

if TYPE_CHECKING:
    from headrace_scheduler.settings import SchedulerSettings
    from headrace_scheduler.tables.installation import Installation
    from headrace_scheduler.tables.job_tables import JobTables

    Agree = Callable[[JobTables, int], Awaitable[Installation]]


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
    from headrace_scheduler.tables.installation import change_buckets, installation

    recorded: Mapping[str, str] = {}
    if settings.home is None:
        recorded = await _keyspace(settings, datacentres)
    agree = change_buckets if change else installation
    found = await _on_tables(settings, agree)
    return {"keyspace": settings.keyspace, "buckets": found.buckets, "buckets_polled": found.polled, **recorded}


async def _keyspace(settings: SchedulerSettings, datacentres: list[str]) -> Mapping[str, str]:
    from headrace.tables import CassandraOptions, Replication, Strategy, apply_schema
    from headrace_scheduler.tables.cassandra_tables import schema_part

    replication = Replication(Strategy.TOPOLOGY, dict(map(_replicas, datacentres))) if datacentres else None
    return await apply_schema(CassandraOptions.of(settings.cassandra_url), replication, [schema_part()])


async def _on_tables(settings: SchedulerSettings, agree: Agree) -> Installation:
    import headrace
    from headrace.tables import CassandraTables
    from headrace_scheduler.parts import PACKAGE, make_home
    from headrace_scheduler.tables.cassandra_tables import CassandraJobTables
    from headrace_scheduler.tables.embedded_tables import TABLES, EmbeddedJobTables

    if settings.home is None:
        async with CassandraTables.open(settings.cassandra_url, PACKAGE) as session:
            return await agree(CassandraJobTables(session), settings.buckets)
    make_home(settings.home)
    async with headrace.connect(settings.engine_url, tables=TABLES) as engine:
        return await agree(EmbeddedJobTables(engine), settings.buckets)


def _replicas(word: str) -> tuple[str, int]:
    from headrace.errors import CallerError

    name, _, count = word.partition("=")
    if not name or not count.isdecimal():
        raise CallerError(f"--datacentre {word} is not NAME=REPLICAS", "write --datacentre dc1=3")
    return name, int(count)


def _told(settings: SchedulerSettings, made: Mapping[str, Any]) -> str:
    where = f"the keyspace {settings.keyspace}" if settings.home is None else str(settings.home)
    return f"{where} is ready, with jobs in {made['buckets']} buckets"
