"""Numbered migrations, applied in one transaction under a lock: two processes that migrate at once do it once."""

from __future__ import annotations

import asyncio

import psycopg

from headrace.adapters.postgres.connecting import Connection, connect, translate, where
from headrace.adapters.postgres.statements import migrations, statements
from headrace.core.errors import SchemaMismatch, UnsafeStore

SERVER_MIN = 14


async def up(location: str) -> list[str]:
    """Bring a store's schema to what this code needs; the names of what was applied."""
    return await asyncio.to_thread(_up, location)


async def versions(location: str) -> tuple[int, int]:
    """The schema a store has (0: none yet), and the newest one this code knows."""
    return await asyncio.to_thread(_versions, location)


def text() -> list[tuple[str, str]]:
    """Names and statements of all migrations, in order, beginning with the place where their numbers are kept."""
    return [("begin", statements()["migrate_begin"]), *((m.title, m.text) for m in migrations())]


def newest() -> int:
    return migrations()[-1].number


def version_of(connection: Connection) -> int:
    """The version of a store; 0 if there is nothing of ours in the database."""
    row = connection.execute("SELECT to_regclass('headrace.migration') IS NOT NULL").fetchone()
    if row is None or not row[0]:
        return 0
    row = connection.execute("SELECT coalesce(max(number), 0) FROM headrace.migration").fetchone()
    return int(str(row[0])) if row is not None else 0


def check(connection: Connection, url: str) -> None:
    """Refuse a store that is older or newer than this code; an empty database is made ours."""
    server = connection.info.server_version // 10_000
    if server < SERVER_MIN:
        raise UnsafeStore(
            f"the store {where(url)} is PostgreSQL {server}, which lacks what the account needs",
            f"upgrade the server to PostgreSQL {SERVER_MIN} or newer",
        )
    version = version_of(connection)
    if version == 0:
        _apply(connection)
    elif version < newest():
        raise SchemaMismatch(
            f"the store {where(url)} has schema {version}, this headrace needs {newest()}",
            f"headrace migrate up --store {where(url)}",
        )
    elif version > newest():
        raise SchemaMismatch(
            f"the store {where(url)} has schema {version}, this headrace knows {newest()} at most",
            "install the newer headrace that wrote it",
        )


def _apply(connection: Connection) -> list[str]:
    """Apply what is missing; the names of what was applied."""
    with connection.transaction():
        connection.execute(statements()["migrate_begin"].encode())
        version = version_of(connection)
        pending = [migration for migration in migrations() if migration.number > version]
        for migration in pending:
            connection.execute(migration.text.encode(), prepare=False)
            connection.execute(statements()["migrate_note"].encode(), (migration.number, migration.name))
    return [migration.title for migration in pending]


def _up(url: str) -> list[str]:
    with connect(url) as connection:
        try:
            if version_of(connection) > newest():
                check(connection, url)
            return _apply(connection)
        except psycopg.Error as error:
            raise translate(url, error, connection.broken, write=True) from error


def _versions(url: str) -> tuple[int, int]:
    with connect(url) as connection:
        try:
            return version_of(connection), newest()
        except psycopg.Error as error:
            raise translate(url, error, connection.broken, write=False) from error


def prepare(url: str) -> None:
    """Test the connection and the schema before a handle is given out."""
    with connect(url) as connection:
        try:
            check(connection, url)
        except psycopg.Error as error:
            raise translate(url, error, connection.broken, write=False) from error
