"""What lanes have to know of PyMySQL, and one connection apart from them."""

from __future__ import annotations

import pymysql

from headrace.adapters.connection_lanes import ConnectionOwner
from headrace.adapters.mysql.connections import close, connect, is_again, is_broken, translate
from headrace.adapters.mysql.options import MysqlOptions
from headrace.adapters.mysql.wire import MysqlConnection
from headrace.core.errors import HeadraceError


class MysqlDriver:
    """`connection_lanes.Driver`."""

    error: type[Exception] = pymysql.MySQLError

    def __init__(self, options: MysqlOptions) -> None:
        self._options = options

    def open(self) -> MysqlConnection:
        return connect(self._options)

    def close(self, connection: MysqlConnection) -> None:
        close(connection)

    def fileno(self, connection: MysqlConnection) -> int:
        return connection.fileno()

    def is_again(self, error: Exception) -> bool:
        return is_again(error)

    def is_broken(self, connection: MysqlConnection, error: Exception) -> bool:
        return is_broken(connection, error)

    def translate(self, connection: MysqlConnection, error: Exception, write: bool) -> HeadraceError:
        # Whether a lost answer leaves anything unknown is known to the connection: only a COMMIT does.
        return translate(self._options, connection, error)


class MysqlOwner(ConnectionOwner[MysqlConnection]):
    """One connection to one database."""

    def __init__(self, options: MysqlOptions) -> None:
        super().__init__(MysqlDriver(options))
