"""Where smap keeps what must not be lost: PostgreSQL, or a SQLite file with the same meaning.

What differs between the two lives in one module each and in `sql/<dialect>/*.sql`; whoever reads or writes asks for a
statement by its name, which exists in both. A statement begins with `-- name: some_name` and takes `:values`. Every
statement can be sent again after a lost answer: that is how an unknown outcome is resolved.

A statement called `create_<thing>` makes the table or index `<thing>` where it is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from headrace.errors import MissingExtra
from headrace.tables import named_statements
from headrace_smap.settings import Settings

Row = tuple[Any, ...]
Step = tuple[str, Mapping[str, object]]
"""The name of a statement and its values."""
DATABASE_FILE = "smap.db"
CREATING = "create_"


class Database(Protocol):
    """Any number of calls may run at once. Values are Python's: aware UTC times, booleans, bytes, lists or dictionaries
    for JSON, and tuples for arrays (in SQLite these are JSON too). Raises `Unreachable` or `TryAgain` if the same call
    later may work."""

    dialect: str

    async def create(self) -> None:
        """Make the tables that are missing. Several may do so at once."""

    async def rows(self, name: str, **values: object) -> list[Row]:
        """One named statement in a transaction of its own."""

    async def transact(self, *steps: Step) -> list[list[Row]]:
        """Named statements in one transaction, all or nothing; the rows of each. A transaction whose end nobody told
        us is sent again, so rows of `RETURNING` may be missing for what the first time had written."""

    async def close(self) -> None: ...


async def open_database(settings: Settings) -> Database:
    """The database of `SMAP_PG_DSN`, or a file in `SMAP_HOME`."""
    if not settings.pg_dsn:
        from headrace_smap.database_sqlite import SqliteDatabase

        return await SqliteDatabase.open(str(settings.home / DATABASE_FILE))
    try:
        from headrace_smap.database_postgres import PostgresDatabase
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise MissingExtra("PostgreSQL needs psycopg", "pip install headrace-smap") from error
    return PostgresDatabase(settings.pg_dsn)


def statements(dialect: str) -> dict[str, str]:
    """All statements of a dialect by name."""
    return named_statements(__package__, dialect)


def creating(dialect: str) -> dict[str, str]:
    """What makes the tables and indexes, by their names and in the order in which they are to be made."""
    return {
        name.removeprefix(CREATING): text for name, text in statements(dialect).items() if name.startswith(CREATING)
    }
