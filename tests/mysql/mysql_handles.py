"""Handles on the tables of one MariaDB database, and others who work there too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pymysql

from headrace.adapters.mysql.options import MysqlOptions
from headrace.adapters.mysql.tables import MysqlTables
from headrace.runtime.open_tables import OpenTables
from headrace.testing.contracts.shelf import shelf_of, tables_on
from headrace.testing.rig.mariadb import MariaServer


@dataclass(frozen=True, slots=True)
class Handle:
    """Where a contract expects a store, its tables are all there is."""

    tables: MysqlTables


def handle_on(url: str, kind: type[MysqlTables] = MysqlTables, **options: object) -> Handle:
    return Handle(kind(replace(MysqlOptions.of(url), **options)))  # type: ignore[arg-type]


async def shelf_on(tables: MysqlTables) -> OpenTables:
    """The contract's tables, made."""
    await tables.migrate("contract", [shelf_of("mysql")])
    return tables_on(tables)


class Somebody:
    """A program of somebody else's in the same database, in a transaction of its own."""

    def __init__(self, connection: pymysql.connections.Connection[Any]) -> None:
        self._connection = connection
        connection.begin()

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def commit(self) -> None:
        self._connection.commit()


@contextlib.contextmanager
def somebody_in(server: MariaServer, url: str) -> Iterator[Somebody]:
    with contextlib.closing(server.connect(url.rpartition("/")[2])) as connection:
        yield Somebody(connection)


def count_of(server: MariaServer, name: str) -> int:
    """One of the server's counters."""
    return int(server.query(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])
