"""pytest fixtures for tests against real servers. In your topmost conftest.py:

    pytest_plugins = ["headrace.testing.fixtures"]

A server is started when the first test asks for it, once per run, and is clean for each test: a database, keyspace,
vhost, bucket or inbox of its own. A test may kill, stop or pause a server: it is put right before the next one. A test
that fails shows the log of every server it used. No server that nobody asks for is started, and none is left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import pytest

from headrace.core.errors import HeadraceError
from headrace.testing.rig import places
from headrace.testing.rig.catalogue import server_class
from headrace.testing.rig.server import Server

if TYPE_CHECKING:
    from headrace.testing.rig.cassandra import CassandraServer
    from headrace.testing.rig.postgres import PostgresServer
    from headrace.testing.rig.prometheus import PrometheusServer
    from headrace.testing.rig.proxy import Proxy
    from headrace.testing.rig.rabbitmq import RabbitServer
    from headrace.testing.rig.redis import RedisServer
    from headrace.testing.rig.s3 import Bucket, S3Server
    from headrace.testing.rig.smtp import SmtpServer

LOG_LINES = 40
REDIS_DATABASE = 1


class SharedServers:
    """The servers of one test run, each under the name of its fixture."""

    def __init__(self) -> None:
        self._servers: dict[str, Server] = {}
        self._lent: list[Server] = []
        self.kept: list[Path] = []

    def start(self, fixture: str, name: str, settings: Mapping[str, str] | None = None) -> Server:
        """Start a server of the catalogue that belongs to the run: put right between tests, removed at the end."""
        try:
            self._servers[fixture] = server_class(name)(settings).__enter__()
        except ModuleNotFoundError as error:
            pytest.fail(f"{name} needs {error.name}\npip install 'headrace[rig]'", pytrace=False)
        except HeadraceError as error:
            pytest.fail(f"{error}\n{error.hint}", pytrace=False)
        return self._servers[fixture]

    def lend(self, server: Server) -> None:
        """To the test that runs: from now on it runs and answers, and its log is part of a failure."""
        self._lent.append(server)
        put_right(server)

    def take_back(self) -> None:
        self._lent.clear()

    def used_by(self, item: pytest.Item) -> dict[str, Server]:
        wanted = getattr(item, "fixturenames", ())
        return {name: server for name, server in self._servers.items() if name in wanted or server in self._lent}

    def new_proxy(self, url: str) -> Proxy:
        """A proxy before the server of this URL, standing where that server wants it if it is one of ours."""
        from headrace.testing.rig.proxy import Proxy

        port = urlsplit(url).port
        owner = next((server for server in self._servers.values() if server.port == port), None)
        return Proxy(url) if owner is None else owner.new_proxy(url)

    def put_right(self) -> None:
        """Those that are down or frozen; nobody waits for the others."""
        for server in self._servers.values():
            if not server.running or _is_frozen(server.pid):
                put_right(server)

    def keep_logs(self) -> None:
        kept = [places.keep_log(server.home) for server in self._servers.values()]
        self.kept += [path for path in kept if path is not None]

    def remove(self) -> None:
        with ExitStack() as all_of_them:
            for server in self._servers.values():
                all_of_them.callback(server.remove)
        self._servers.clear()


def put_right(server: Server) -> None:
    """Make a server run and answer again, whatever a test has done to it."""
    if not server.running:
        server.start()
    elif _is_frozen(server.pid):
        server.resume()
    server.wait_ready()


def _is_frozen(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


SHARED = pytest.StashKey[SharedServers]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SHARED] = SharedServers()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[SHARED].take_back()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for fixture, server in item.config.stash[SHARED].used_by(item).items():
            tail = "\n".join(server.log().splitlines()[-LOG_LINES:])
            report.sections.append((f"log of {fixture}", tail))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """After the fixtures of the test, so that they find its servers as the test left them."""
    try:
        return (yield)
    finally:
        item.config.stash[SHARED].put_right()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if kept := config.stash[SHARED].kept:
        terminalreporter.section("logs of the servers")
        for path in kept:
            terminalreporter.line(str(path))


@pytest.fixture(scope="session")
def shared_servers(request: pytest.FixtureRequest) -> Iterator[SharedServers]:
    """The servers of this run, for fixtures that start one of their own with other settings."""
    shared = request.config.stash[SHARED]
    yield shared
    if request.session.testsfailed:
        shared.keep_logs()
    shared.remove()


@pytest.fixture(scope="session")
def postgres_server(shared_servers: SharedServers) -> PostgresServer:
    """PostgreSQL 18 with durable settings."""
    return cast("PostgresServer", shared_servers.start("postgres_server", "postgres"))


@pytest.fixture(scope="session")
def redis_server(shared_servers: SharedServers) -> RedisServer:
    return cast("RedisServer", shared_servers.start("redis_server", "redis"))


@pytest.fixture(scope="session")
def rabbitmq_server(shared_servers: SharedServers) -> RabbitServer:
    return cast("RabbitServer", shared_servers.start("rabbitmq_server", "rabbitmq"))


@pytest.fixture(scope="session")
def cassandra_server(shared_servers: SharedServers) -> CassandraServer:
    """One node of Cassandra 5 with durable settings."""
    return cast("CassandraServer", shared_servers.start("cassandra_server", "cassandra"))


@pytest.fixture(scope="session")
def s3_server(shared_servers: SharedServers) -> S3Server:
    return cast("S3Server", shared_servers.start("s3_server", "s3"))


@pytest.fixture(scope="session")
def prometheus_server(shared_servers: SharedServers) -> PrometheusServer:
    return cast("PrometheusServer", shared_servers.start("prometheus_server", "prometheus"))


@pytest.fixture(scope="session")
def smtp_server(shared_servers: SharedServers) -> SmtpServer:
    return cast("SmtpServer", shared_servers.start("smtp_server", "smtp"))


@pytest.fixture
def postgres_database(shared_servers: SharedServers, postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a fresh database; dropped afterwards, whoever is still connected."""
    shared_servers.lend(postgres_server)
    with postgres_server.database() as url:
        yield url
        put_right(postgres_server)


@pytest.fixture
def redis_database(shared_servers: SharedServers, redis_server: RedisServer) -> str:
    """The URL of an empty database."""
    shared_servers.lend(redis_server)
    redis_server.empty(REDIS_DATABASE)
    return redis_server.url_of(REDIS_DATABASE)


@pytest.fixture
def rabbitmq_vhost(shared_servers: SharedServers, rabbitmq_server: RabbitServer) -> Iterator[str]:
    """The AMQP URL of a fresh virtual host; deleted afterwards, with its queues and connections."""
    shared_servers.lend(rabbitmq_server)
    with rabbitmq_server.vhost() as url:
        yield url
        put_right(rabbitmq_server)


@pytest.fixture
def cassandra_keyspace(shared_servers: SharedServers, cassandra_server: CassandraServer) -> Iterator[str]:
    """The URL of a fresh keyspace, `cassandra://HOST:PORT/KEYSPACE?local_dc=…`; dropped afterwards with its tables."""
    shared_servers.lend(cassandra_server)
    with cassandra_server.keyspace() as url:
        yield url
        put_right(cassandra_server)


@pytest.fixture
def s3_bucket(shared_servers: SharedServers, s3_server: S3Server) -> Iterator[Bucket]:
    """A fresh bucket: its endpoint, name, keys and URL; deleted afterwards with all that is in it."""
    shared_servers.lend(s3_server)
    with s3_server.bucket() as bucket:
        yield bucket
        put_right(s3_server)


@pytest.fixture
def smtp_inbox(shared_servers: SharedServers, smtp_server: SmtpServer) -> SmtpServer:
    """The SMTP server without any mail."""
    shared_servers.lend(smtp_server)
    smtp_server.empty()
    return smtp_server


@pytest.fixture
def fault_proxy(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Proxy]]:
    """`fault_proxy(url)` opens a proxy before the server of this URL; all are closed afterwards."""
    shared = request.config.stash[SHARED]
    with ExitStack() as open_proxies:
        yield lambda url: open_proxies.enter_context(shared.new_proxy(url))
