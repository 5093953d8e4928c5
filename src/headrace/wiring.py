"""From a URL to a store, and from a store to an engine. Nobody else imports adapters.

An adapter is imported when its URL is opened, so that a bare install never asks for a driver it does not use.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, Unpack
from urllib.parse import unquote, urlsplit

from headrace.core.catalogue import Catalogue
from headrace.core.checks import Check
from headrace.core.errors import CallerError, MissingExtra, NotFound, SchemaMismatch
from headrace.core.redaction import redacted
from headrace.core.schema_versions import SchemaVersions
from headrace.core.table_statements import TableStatement
from headrace.ports.bus import QueueBus
from headrace.ports.leases import Leases
from headrace.ports.parts import Parts
from headrace.ports.sink import Sink
from headrace.ports.tables import Tables
from headrace.runtime.engine import Engine
from headrace.runtime.flow import Flow
from headrace.runtime.open_tables import OpenTables
from headrace.runtime.seams import Seams
from headrace.runtime.submission import SubmitOptions, submission
from headrace.tables.statements import Statements

MEMORY = ":memory:"
_BUS_FORMS = "amqp://user:password@host/vhost or amqps://user:password@host/vhost"
_FORMS = "sqlite:///jobs.db, sqlite:////srv/jobs.db, sqlite:///:memory: or postgresql://user@host/database"


_MYSQL = "mysql"


class StoreKind(StrEnum):
    """The services a store can live in; the value names the adapter's package and its extra."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store is: a path (or `:memory:`) for SQLite, the URL itself for PostgreSQL."""

    service: StoreKind
    location: str

    @property
    def in_memory(self) -> bool:
        return self.service is StoreKind.SQLITE and self.location == MEMORY


def parse(url: str) -> Address:
    """Understand a store's URL, or say how one looks."""
    if "://" not in url:
        if not url or url.startswith("sqlite:"):
            raise CallerError(f"{url!r} is not the URL of a store", f"write {_FORMS}")
        return Address(StoreKind.SQLITE, url)
    scheme, rest = url.split("://", 1)
    if scheme == "sqlite":
        return Address(StoreKind.SQLITE, _sqlite_path(url, rest))
    if scheme in ("postgresql", "postgres"):
        _check_url(url, _FORMS)
        return Address(StoreKind.POSTGRES, url)
    raise CallerError(f"there is no store for {scheme}:// ({redacted(url)})", f"write {_FORMS}")


def sink(url: str, tables: str = "") -> Sink:
    """A sink for effects in a database of the application's own; it opens itself when it is first used.

    `tables` are statements that make the application's tables if they are not there.
    """
    address = parse(url)
    if address.service is StoreKind.SQLITE:
        from headrace.adapters.sqlite.sink import SqliteSink

        return SqliteSink(address.location, tables)
    _need_postgres()
    from headrace.adapters.postgres.sink import PostgresSink

    return PostgresSink(address.location, tables)


def missing(url: str) -> bool:
    """Whether opening this URL would make a new store."""
    address = parse(url)
    return address.service is StoreKind.SQLITE and not address.in_memory and not Path(address.location).exists()


def driver_version(url: str) -> str:
    """What talks to the store, for those who report a problem."""
    if parse(url).service is StoreKind.SQLITE:
        import apsw

        return f"apsw {apsw.apsw_version()} with SQLite {apsw.sqlite_lib_version()}"
    _need_postgres()
    import psycopg

    return f"psycopg {psycopg.__version__} with libpq {psycopg.pq.version_pretty(psycopg.pq.version())}"


class Schema(Protocol):
    """What an adapter's `schema` module offers to those who migrate."""

    async def up(self, location: str) -> list[str]: ...

    async def versions(self, location: str) -> SchemaVersions: ...

    def text(self) -> list[tuple[str, str]]: ...


def watched(url: str) -> Callable[[], None]:
    """A check that raises `StoreReplaced` once the store's file is not the one that it saw first. A server's store is
    not a file: there it never does."""
    address = parse(url)
    if address.service is not StoreKind.SQLITE or address.in_memory:
        return lambda: None
    from headrace.adapters.sqlite.file_watch import FileWatch

    return FileWatch(str(Path(address.location).absolute())).check


async def open_store(url: str) -> Parts:
    """Open the store that a URL names."""
    address = parse(url)
    if address.service is StoreKind.SQLITE:
        from headrace.adapters.sqlite.store import SqliteStore

        return await SqliteStore.open(address.location)
    _need_postgres()
    from headrace.adapters.postgres.store import PostgresStore

    return await PostgresStore.open(address.location)


async def examine(url: str) -> list[Check]:
    """Look at a store and where it is kept, without opening, making or changing anything. Nothing is to be seen of one
    in memory."""
    address = parse(url)
    if address.in_memory:
        return []
    if address.service is StoreKind.SQLITE:
        from headrace.adapters.sqlite.checks import examine as examine_file

        return await examine_file(address.location)
    _need_postgres()
    from headrace.adapters.postgres.checks import examine as examine_server

    return await examine_server(address.location)


@asynccontextmanager
async def connect(url: str, tables: Statements | Sequence[Statements] = ()) -> AsyncIterator[Engine]:
    """Open the engine on a store, and give everything back at the end: `async with headrace.connect(url) as engine`.

    `tables` are the application's own statements and migrations (`headrace.tables`); what is missing of its tables is
    made here.
    """
    store = await open_store(url)
    try:
        brought = (tables,) if isinstance(tables, Statements) else tables
        yield Engine(store, Seams(), await _catalogue(store.tables, brought))
    finally:
        await store.close()


@asynccontextmanager
async def open_tables(
    url: str, tables: Statements | Sequence[Statements], make: bool = True
) -> AsyncIterator[OpenTables]:
    """Open an application's own tables where they are, and give everything back at the end: in a store, whose `Engine`
    is the answer, or in a MySQL or MariaDB database, which is none.

    `mysql://user:password@host:3306/database`, or the URL of a store. What is missing of the tables is made here; for
    those who only read, and do not `make`, it is a `SchemaMismatch`.
    """
    brought = (tables,) if isinstance(tables, Statements) else tables
    if not url.startswith(f"{_MYSQL}://"):
        if not make and missing(url):
            raise NotFound(f"there are no tables at {redacted(url)}")
        store = await open_store(url)
        try:
            yield Engine(store, Seams(), await _catalogue(store.tables, brought, make))
        finally:
            await store.close()
        return
    _need_mysql()
    from headrace.adapters.mysql.tables import MysqlTables

    async with MysqlTables.open(url) as opened:
        yield OpenTables(opened, Seams(), await _catalogue(opened, brought, make))


@asynccontextmanager
async def bus(
    url: str,
    exchange: str = "headrace.events",
    *,
    prefetch: int = 200,
    dead_letters: str = "{subscription}.dead",
    plain: bool = False,
) -> AsyncIterator[QueueBus]:
    """Open a bus on RabbitMQ, and give back at the end what is not acknowledged: `async with headrace.bus(url) as bus`.

    Events go through the topic exchange, to a durable queue for each subscription. `prefetch` messages come ahead of
    their acknowledgement. `dead_letters` names the queue of a subscription's dead letters. `plain` leaves every frame
    to the driver, which costs ten times as much and is for those who suspect our reading of them.
    """
    if not url.startswith(("amqp://", "amqps://")):
        raise CallerError(f"{redacted(url)!r} is not the URL of a RabbitMQ", f"write {_BUS_FORMS}")
    _check_url(url, _BUS_FORMS)
    _need_rabbitmq()
    from headrace.adapters.rabbitmq import RabbitBus, RabbitOptions

    opened = await RabbitBus.open(url, RabbitOptions(exchange, prefetch, dead_letters, plain=plain))
    try:
        yield opened
    finally:
        await opened.close()


@asynccontextmanager
async def leases(url: str) -> AsyncIterator[Leases]:
    """Open the leases of a store or of a Cassandra keyspace, and close it at the end: named resources with one holder
    each, and fences that only rise.

    `cassandra://host:9042/keyspace?local_dc=datacenter1`, or the URL of a store.
    """
    if url.startswith("cassandra:"):
        from headrace.adapters.cassandra.tables import CassandraTables

        async with CassandraTables.open(url) as opened:
            yield opened.leases
        return
    store = await open_store(url)
    try:
        yield store.leases
    finally:
        await store.close()


def submit_in(
    connection: Any, flow: Flow, payload: Any, *, notify: bool = False, **options: Unpack[SubmitOptions]
) -> str:
    """Open a job inside the transaction of a connection of yours; the answer is the job's id.

    The job exists if and only if you commit. The connection leads to the PostgreSQL database that holds the store, and
    is psycopg's, Django's, or SQLAlchemy's connection or session; one that is awaited goes to `engine.submit`. Workers
    find the job by their next poll; `notify` wakes them at the commit.
    """
    return submit_many_in(connection, flow, (payload,), notify=notify, **options)


def submit_many_in(
    connection: Any, flow: Flow, payloads: Iterable[Any], *, notify: bool = False, **options: Unpack[SubmitOptions]
) -> str:
    """Open a job with several items inside the transaction of a connection of yours: see `submit_in`. They are sent at
    once, so UPLOAD_BYTES is the limit."""
    _need_postgres()
    from headrace.adapters.postgres import caller_transactions

    whole = submission(flow, Seams().identity.new(), payloads, options)
    return caller_transactions.submit_in(connection, whole, notify).job


async def _catalogue(opened: Tables, tables: Sequence[Statements], make: bool = True) -> Catalogue:
    """The statements of several packages, whose tables are there from now on."""
    dialect, found = opened.dialect, dict[str, TableStatement]()
    for brought in tables:
        migrations = brought.migrations(dialect)
        if migrations and make:
            await opened.migrate(brought.owner, migrations)
        elif migrations and (lacking := await opened.missing(brought.owner, migrations)):
            raise SchemaMismatch(f"the tables of {brought.owner} are not there, or lack {', '.join(lacking)}")
        named = brought.named(dialect)
        if twice := sorted(found.keys() & named.keys()):
            raise CallerError(f"{brought.package} has a statement {twice[0]}, and another package has one too")
        found.update(named)
    return Catalogue(found)


async def migrate_up(url: str) -> list[str]:
    """Bring a store's schema to what this code needs; the names of what was applied."""
    address = parse(url)
    return await _schema(address).up(address.location)


async def schema_versions(url: str) -> SchemaVersions:
    """The schema a store has, and the one this code needs."""
    address = parse(url)
    return await _schema(address).versions(address.location)


def migration_text(url: str) -> list[tuple[str, str]]:
    """Names and statements of all migrations, in order."""
    return _schema(parse(url)).text()


def _sqlite_path(url: str, rest: str) -> str:
    """`sqlite:///a.db` is relative, `sqlite:////a.db` absolute, `sqlite://` in memory."""
    if "?" in rest or "#" in rest:
        raise CallerError(f"{url!r} has options, and SQLite stores take none", f"write {_FORMS}")
    if rest in ("", "/"):
        return MEMORY
    if not rest.startswith("/"):
        raise CallerError(f"{url!r} names a host, and SQLite is a file", f"write sqlite:///{rest}")
    return unquote(rest[1:])


def _check_url(url: str, forms: str) -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise CallerError(f"{redacted(url)} is not a URL: {error}", f"write {forms}") from None


def _schema(address: Address) -> Schema:
    if address.service is StoreKind.SQLITE:
        from headrace.adapters.sqlite import schema

        return schema
    _need_postgres()
    from headrace.adapters.postgres import schema as postgres_schema

    return postgres_schema


def _need_postgres() -> None:
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtra(
            "a PostgreSQL store needs psycopg, which is not installed",
            f"{sys.executable} -m pip install 'headrace[{StoreKind.POSTGRES}]'",
        )


def _need_mysql() -> None:
    if importlib.util.find_spec("pymysql") is None:
        raise MissingExtra(
            "tables in MySQL need PyMySQL, which is not installed",
            f"{sys.executable} -m pip install 'headrace[{_MYSQL}]'",
        )


def _need_rabbitmq() -> None:
    if importlib.util.find_spec("aiormq") is None:
        raise MissingExtra(
            "a bus on RabbitMQ needs aio-pika, which is not installed",
            f"{sys.executable} -m pip install 'headrace[rabbitmq]'",
        )
