"""Numbered migrations and the functions, applied in one transaction under a lock: two processes that migrate at once do
it once.

A number is applied once and holds tables, columns, indexes and data. The functions are dropped before the numbers and
made anew after them, as a whole, so a store has exactly those of this code, however it came here; a number that needs a
function brings a temporary one. They change with a new number only: so a version says everything, and an older or newer
headrace is refused. A store that has the version and other functions was written by code between two versions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import psycopg

from headrace.adapters.postgres.connections import Connection, connect, translate, where
from headrace.adapters.postgres.statements import Migration, functions, functions_digest, migrations, statements
from headrace.core.errors import SchemaMismatch, UnsafeStore
from headrace.core.schema_versions import SchemaVersions

SERVER_MIN = 14


async def up(location: str) -> list[str]:
    """Bring a store's schema to what this code needs; the names of what was applied."""
    return await asyncio.to_thread(_up, location)


async def versions(location: str) -> SchemaVersions:
    return await asyncio.to_thread(_versions, location)


def text() -> list[tuple[str, str]]:
    """Names and statements of everything, in order, beginning with the place where the numbers are kept."""
    return [("begin", statements()["migrate_begin"]), _drop(), *_steps(migrations())]


def newest() -> int:
    return migrations()[-1].number


def versions_of(connection: Connection) -> SchemaVersions:
    """Found is 0 if there is nothing of ours in the database."""
    row = connection.execute("SELECT to_regclass('headrace.migration') IS NOT NULL").fetchone()
    if row is None or not row[0]:
        return SchemaVersions(0, newest())
    found = int(str(_value(connection, "migrate_version")))
    differ = found == newest() and _value(connection, "migrate_functions") != functions_digest()
    return SchemaVersions(found, newest(), functions_differ=differ)


def check(connection: Connection, url: str) -> None:
    """Refuse a store that is older or newer than this code; an empty database is made ours."""
    server = connection.info.server_version // 10_000
    if server < SERVER_MIN:
        raise UnsafeStore(
            f"the store {where(url)} is PostgreSQL {server}, which lacks what the account needs",
            f"upgrade the server to PostgreSQL {SERVER_MIN} or newer",
        )
    schema = versions_of(connection)
    if schema.found == 0:
        _apply(connection, url)
    elif schema.found < schema.newest:
        raise SchemaMismatch(
            f"the store {where(url)} has schema {schema.found}, this headrace needs {schema.newest}",
            f"headrace migrate up --store {where(url)}",
        )
    elif schema.functions_differ:
        raise SchemaMismatch(
            f"the store {where(url)} has schema {schema.found} with other functions than this headrace",
            f"headrace migrate up --store {where(url)}",
        )
    _refuse_newer(schema, url)


def _refuse_newer(schema: SchemaVersions, url: str) -> None:
    if schema.found > schema.newest:
        raise SchemaMismatch(
            f"the store {where(url)} has schema {schema.found}, this headrace knows {schema.newest} at most",
            "install the newer headrace that wrote it",
        )


def _apply(connection: Connection, url: str) -> list[str]:
    """Apply what is missing; the names of what was applied."""
    with connection.transaction():
        connection.execute(statements()["migrate_begin"].encode())
        # Looked at under the lock: a newer headrace may have been here while this one waited for it.
        schema = versions_of(connection)
        _refuse_newer(schema, url)
        if schema.current:
            return []
        pending = [migration for migration in migrations() if migration.number > schema.found]
        # What stands in a schema that is no store yet is not ours to drop.
        for _, step in [*([_drop()] if schema.found else []), *_steps(pending)]:
            connection.execute(step.encode(), prepare=False)
    return [*(migration.title for migration in pending), "functions"]


def _drop() -> tuple[str, str]:
    return "drop_functions", statements()["migrate_drop_functions"]


def _steps(pending: Iterable[Migration]) -> list[tuple[str, str]]:
    """Names and statements that bring a store without functions up, under the lock."""
    note = statements()["migrate_note"]
    return [
        *((migration.title, f"{migration.text}{note % (migration.number, migration.name)}") for migration in pending),
        *((f"functions_{name}", made) for name, made in functions()),
        ("note_functions", statements()["migrate_note_functions"] % functions_digest()),
    ]


def _value(connection: Connection, statement: str) -> object:
    row = connection.execute(statements()[statement].encode()).fetchone()
    return None if row is None else row[0]


def _up(url: str) -> list[str]:
    with connect(url) as connection:
        try:
            return _apply(connection, url)
        except psycopg.Error as error:
            raise translate(url, error, connection.broken, write=True) from error


def _versions(url: str) -> SchemaVersions:
    with connect(url) as connection:
        try:
            return versions_of(connection)
        except psycopg.Error as error:
            raise translate(url, error, connection.broken, write=False) from error


def prepare(url: str) -> None:
    """Test the connection and the schema before a handle is given out."""
    with connect(url) as connection:
        try:
            check(connection, url)
        except psycopg.Error as error:
            raise translate(url, error, connection.broken, write=False) from error
