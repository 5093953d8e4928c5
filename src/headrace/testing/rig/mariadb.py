"""A real MariaDB 10.11 with durable settings: a committed row survives kill -9.

It stands for MySQL, whose server is in no Debian. A client that must work with both minds where MySQL 8 differs:
- *Login*: here `mysql_native_password`, there `caching_sha2_password`, which wants TLS or the server's RSA key (the
  `cryptography` of PyMySQL). The version in the greeting begins with `5.5.5-`, for clients of old replicas.
- *Bulk protocol* (COM_STMT_BULK_EXECUTE) and `INSERT … RETURNING` are MariaDB's alone; a row alias in `INSERT … AS new
  ON DUPLICATE KEY UPDATE` is MySQL's alone. `VALUES(column)` is understood by both, and deprecated by MySQL.
- *Keys*: a UNIQUE key over 3,072 bytes silently becomes a hash here, MySQL refuses it (1071).
- *Collations*: `utf8mb4_0900_…`, MySQL's default, are unknown here (1273), `…_nopad_…` are unknown there.
- *JSON* is LONGTEXT with a check here and comes back byte for byte; MySQL keeps a form of its own and sorts the keys.
- *Errors*: deadlock (1213) and lock timeout (1205) are the same; a connection that was killed is told 1927 here. A lost
  connection (2006, 2013) is the driver's own error, whatever the server.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.testing.rig.cached import cached
from headrace.testing.rig.needs import DebianPackage, PythonWheel
from headrace.testing.rig.server import Server

if TYPE_CHECKING:
    from pymysql.connections import Connection

PROGRAM = DebianPackage("mariadb-server-core", "10.11", "mariadbd")
# Making a data directory asks it for its defaults.
DEFAULTS = DebianPackage("mariadb-client-core", "", "my_print_defaults")
DRIVER = PythonWheel("pymysql", "1.1", "pymysql")
DURABLE = {
    "innodb-flush-log-at-trx-commit": "1",
    "innodb-doublewrite": "ON",
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "32M",
    "max-connections": "100",
    "performance-schema": "OFF",
    "character-set-server": "utf8mb4",
    "collation-server": "utf8mb4_general_ci",
}
USER = PASSWORD = DATABASE = "rig"
NEW = ("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
# The installation runs without the tables of users until it is told to read them.
FIRST_STATEMENTS = f"""FLUSH PRIVILEGES;
CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON *.* TO {USER}@'127.0.0.1' WITH GRANT OPTION;
"""
CONNECT_S_MAX = 5
# What a test sees must not depend on where its machine stands.
ZONE = {"default-time-zone": "+00:00"}


class MariaServer(Server):
    """Settings are options of mariadbd without the dashes: `{"max-connections": "23"}`."""

    name: ClassVar[str] = "mariadb"
    needs = (PROGRAM, DEFAULTS, DRIVER)
    user = "nobody"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__({**DURABLE, **ZONE, **(settings or {})})
        self._numbers = itertools.count(1)

    @property
    def url(self) -> str:
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        return f"mysql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def prepare(self) -> None:
        """A data directory is made once for each version and copied from then on, which takes a tenth of the time."""
        options = hashlib.sha256(f"{NEW}{FIRST_STATEMENTS}".encode()).hexdigest()[:8]
        version, owner = PROGRAM.version_at(PROGRAM.path()), self.home.stat().st_uid
        fresh = cached(f"mariadb-data-{version}-{options}-{owner}", self._make_data)
        self.run("cp", "-a", "--reflink=auto", str(fresh / "data"), str(self._data))

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        options = {
            **settings,
            "datadir": str(self._data),
            "tmpdir": str(self.home),
            "socket": str(self.home / "mariadb.sock"),
            "pid-file": str(self.home / "mariadb.pid"),
            "bind-address": "127.0.0.1",
            "port": str(self.port),
        }
        arguments = [f"--{name}={value}" for name, value in options.items()]
        return [str(PROGRAM.path()), "--no-defaults", "--skip-name-resolve", *arguments]

    def ask(self) -> None:
        import pymysql

        try:
            self.query("SELECT 1")
        except pymysql.MySQLError as error:
            raise ConnectionError(str(error)) from error

    def query(self, statement: str, database: str = DATABASE) -> list[tuple[Any, ...]]:
        """Run one statement in autocommit on a connection of its own; its rows if it has some."""
        with contextlib.closing(self.connect(database)) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def connect(self, database: str = DATABASE) -> Connection[Any]:
        """A connection in autocommit of the user who may do everything."""
        import pymysql

        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=PASSWORD,
            database=database,
            autocommit=True,
            connect_timeout=CONNECT_S_MAX,
            read_timeout=CONNECT_S_MAX,
        )

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a fresh database, dropped at the end with what is in it."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self.query(f"CREATE DATABASE {name}")
        try:
            yield self.url_of(name)
        finally:
            # One that a test left dead takes its databases along when it is removed.
            if self.running:
                self._disconnect(name)
                self.query(f"DROP DATABASE IF EXISTS {name}")

    def _disconnect(self, database: str) -> None:
        """A transaction that somebody left open holds its tables, and a drop would wait for it."""
        import pymysql

        for (number,) in self.query(f"SELECT id FROM information_schema.processlist WHERE db = '{database}'"):
            # It may have ended meanwhile.
            with contextlib.suppress(pymysql.MySQLError):
                self.query(f"KILL HARD CONNECTION {number}")

    @property
    def _data(self) -> Path:
        return self.home / "data"

    def _make_data(self, folder: Path) -> None:
        # The user of the server makes it and copies it, in a directory that is not theirs.
        data = folder / "data"
        data.mkdir(mode=0o700)
        self.hand_over(data)
        first = self.write("first.sql", FIRST_STATEMENTS)
        program = PROGRAM.path().parent.parent / "bin" / "mariadb-install-db"
        self.run(str(program), "--no-defaults", f"--datadir={data}", f"--extra-file={first}", *NEW)
