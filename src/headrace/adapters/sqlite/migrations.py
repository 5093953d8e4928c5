"""Numbered migrations. `user_version` says how far a file has come, `application_id` that it is one of ours."""

from __future__ import annotations

import apsw

from headrace.adapters.sqlite.statements import migrations
from headrace.core.errors import SchemaMismatch, UnsafeStore

APPLICATION_ID = 0x48445243  # "HDRC"


def schema_newest() -> int:
    return migrations()[-1][0]


def schema_of(connection: apsw.Connection) -> int:
    """The version of a store; 0 for an empty file. A file of somebody else is refused."""
    version = int(connection.pragma("user_version") or 0)
    if connection.pragma("application_id") == APPLICATION_ID:
        return version
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()[0][0]
    if version or tables:
        raise UnsafeStore(
            f"{connection.filename or 'this database'} is not a headrace store: it holds other tables",
            "choose another file: --store sqlite:///other.db",
        )
    return 0


def migrate_up(connection: apsw.Connection) -> list[str]:
    """Apply what is missing, in one transaction; the names of what was applied."""
    applied: list[str] = []
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = schema_of(connection)
        for number, name, text in migrations():
            if number > version:
                connection.execute(text).fetchall()
                connection.pragma("user_version", number)
                applied.append(f"{number:04d}_{name}")
        connection.pragma("application_id", APPLICATION_ID)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return applied


def check(connection: apsw.Connection, where: str) -> None:
    """Refuse a store that is older or newer than this code."""
    version, newest = schema_of(connection), schema_newest()
    if version < newest:
        raise SchemaMismatch(
            f"the store {where} has schema {version}, this headrace needs {newest}",
            f"headrace migrate up --store {where}",
        )
    if version > newest:
        raise SchemaMismatch(
            f"the store {where} has schema {version}, this headrace knows {newest} at most",
            "install the newer headrace that wrote it",
        )
