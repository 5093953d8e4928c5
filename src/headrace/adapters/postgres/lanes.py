"""Lanes to PostgreSQL: threads that own connections of psycopg."""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from headrace.adapters.connection_lanes import ConnectionLanes, ConnectionOwner
from headrace.adapters.postgres.connections import Connection, connect, is_again, is_broken, translate
from headrace.core.errors import HeadraceError


class PostgresDriver:
    """`connection_lanes.Driver`. `prepare` is what a new connection is told first."""

    error: type[Exception] = psycopg.Error

    def __init__(self, url: str, prepare: Callable[[Connection], None]) -> None:
        self._url, self._prepare = url, prepare

    def open(self) -> Connection:
        connection = connect(self._url)
        try:
            self._prepare(connection)
        except psycopg.Error as error:
            connection.close()
            raise translate(self._url, error, broken=True, write=False) from error
        return connection

    def close(self, connection: Connection) -> None:
        connection.close()

    def fileno(self, connection: Connection) -> int:
        return -1 if connection.closed else connection.fileno()

    def is_again(self, error: Exception) -> bool:
        return is_again(error)

    def is_broken(self, connection: Connection, error: Exception) -> bool:
        return is_broken(connection, error)

    def translate(self, connection: Connection, error: Exception, write: bool) -> HeadraceError:
        assert isinstance(error, psycopg.Error)
        return translate(self._url, error, is_broken(connection, error), write)


class Owner(ConnectionOwner[Connection]):
    """One connection to one database."""

    def __init__(self, url: str, prepare: Callable[[Connection], None]) -> None:
        super().__init__(PostgresDriver(url, prepare))


class Lanes(ConnectionLanes[Connection]):
    """A few connections to one database that share one queue."""

    def __init__(
        self, url: str, count: int, prepare: Callable[[Connection], None], answer_s_max: float | None = None
    ) -> None:
        super().__init__(PostgresDriver(url, prepare), "postgres", count, answer_s_max)
