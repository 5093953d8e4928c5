"""pytest fixtures for tests against real servers. In your topmost conftest.py:

    pytest_plugins = ["headrace.testing.fixtures"]

A server is started when the first test asks for it, once per run, and is clean for each test: a database, keyspace,
vhost, bucket or inbox of its own. A test may kill, stop or pause a server: it is put right before the next one. A test
that fails shows the log of every server it used. No server that nobody asks for is started, and none is left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import pytest

from headrace.core.errors import HeadraceError
from headrace.testing.rig import places
from headrace.testing.rig.catalogue import server_class
from headrace.testing.rig.children import FROZEN, state_of
from headrace.testing.rig.server import Server

if TYPE_CHECKING:
    from headrace.testing.rig.cassandra import CassandraServer
    from headrace.testing.rig.cassandra_cluster import CassandraCluster
    from headrace.testing.rig.clickhouse import ClickHouseServer
    from headrace.testing.rig.ftp import FtpServer
    from headrace.testing.rig.kafka import KafkaServer
    from headrace.testing.rig.mariadb import MariaServer
    from headrace.testing.rig.postgres import PostgresServer
    from headrace.testing.rig.prometheus import PrometheusServer
    from headrace.testing.rig.proxy import Proxy
    from headrace.testing.rig.rabbitmq import RabbitServer
    from headrace.testing.rig.redis import RedisServer
    from headrace.testing.rig.s3 import Bucket, S3Server
    from headrace.testing.rig.sftp import SftpServer
    from headrace.testing.rig.smtp import SmtpServer
    from headrace.testing.rig.vsftpd import VsftpdServer

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

    def adopt(self, fixture: str, servers: Sequence[Server]) -> None:
        """Put right between tests what a fixture has started itself, and removes itself."""
        self._servers |= {f"{fixture}.{number}": server for number, server in enumerate(servers, 1)}

    def let_go(self, fixture: str) -> None:
        self._servers = {name: server for name, server in self._servers.items() if _fixture(name) != fixture}

    def lend(self, server: Server) -> None:
        """To the test that runs: from now on it runs and answers, and its log is part of a failure."""
        self._lent.append(server)
        put_right(server)

    def take_back(self) -> None:
        self._lent.clear()

    def used_by(self, item: pytest.Item) -> dict[str, Server]:
        wanted = getattr(item, "fixturenames", ())
        return {
            name: server for name, server in self._servers.items() if _fixture(name) in wanted or server in self._lent
        }

    def new_proxy(self, url: str) -> Proxy:
        """A proxy before the server of this URL, standing where that server wants it if it is one of ours."""
        from headrace.testing.rig.proxy import Proxy

        port = urlsplit(url).port
        owner = next((server for server in self._servers.values() if server.port == port), None)
        return Proxy(url) if owner is None else owner.new_proxy(url)

    def put_right(self) -> None:
        """Those that are down or frozen; nobody waits for the others."""
        for server in self._servers.values():
            if not server.running or state_of(server.pid) == FROZEN:
                put_right(server)

    def keep_logs(self) -> None:
        kept = [places.keep_log(server.home) for server in self._servers.values()]
        self.kept += [path for path in kept if path is not None]

    def remove(self) -> None:
        with ExitStack() as all_of_them:
            for server in self._servers.values():
                all_of_them.callback(server.remove)
        self._servers.clear()


def _fixture(name: str) -> str:
    """Servers of one fixture are numbered."""
    return name.partition(".")[0]


def put_right(server: Server) -> None:
    """Make a server run and answer again, whatever a test has done to it."""
    if not server.running:
        server.start()
    elif state_of(server.pid) == FROZEN:
        server.resume()
    server.wait_ready()


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
def cassandra_cluster(shared_servers: SharedServers) -> Iterator[CassandraCluster]:
    """Three nodes of Cassandra 5, each behind a proxy at the address that it tells drivers."""
    from headrace.testing.rig.cassandra_cluster import CassandraCluster

    with CassandraCluster(proxied=True) as cluster:
        shared_servers.adopt("cassandra_cluster", cluster.nodes)
        yield cluster
        shared_servers.let_go("cassandra_cluster")


@pytest.fixture(scope="session")
def s3_server(shared_servers: SharedServers) -> S3Server:
    return cast("S3Server", shared_servers.start("s3_server", "s3"))


@pytest.fixture(scope="session")
def prometheus_server(shared_servers: SharedServers) -> PrometheusServer:
    return cast("PrometheusServer", shared_servers.start("prometheus_server", "prometheus"))


@pytest.fixture(scope="session")
def smtp_server(shared_servers: SharedServers) -> SmtpServer:
    return cast("SmtpServer", shared_servers.start("smtp_server", "smtp"))


@pytest.fixture(scope="session")
def mariadb_server(shared_servers: SharedServers) -> MariaServer:
    """MariaDB 10.11 with durable settings."""
    return cast("MariaServer", shared_servers.start("mariadb_server", "mariadb"))


@pytest.fixture(scope="session")
def kafka_server(shared_servers: SharedServers) -> KafkaServer:
    """One broker of Kafka 4, its own controller."""
    return cast("KafkaServer", shared_servers.start("kafka_server", "kafka"))


@pytest.fixture(scope="session")
def ftp_server(shared_servers: SharedServers) -> FtpServer:
    return cast("FtpServer", shared_servers.start("ftp_server", "ftp"))


@pytest.fixture(scope="session")
def vsftpd_server(shared_servers: SharedServers) -> VsftpdServer:
    """vsftpd; needs root."""
    return cast("VsftpdServer", shared_servers.start("vsftpd_server", "vsftpd"))


@pytest.fixture(scope="session")
def sftp_server(shared_servers: SharedServers) -> SftpServer:
    """OpenSSH for SFTP; needs root."""
    return cast("SftpServer", shared_servers.start("sftp_server", "sftp"))


@pytest.fixture(scope="session")
def clickhouse_server(shared_servers: SharedServers) -> ClickHouseServer:
    """chDB behind ClickHouse's HTTP interface."""
    return cast("ClickHouseServer", shared_servers.start("clickhouse_server", "clickhouse"))


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
def whole_cluster(shared_servers: SharedServers, cassandra_cluster: CassandraCluster) -> CassandraCluster:
    """The three nodes, all there and seen by each other, and their proxies whole."""
    _mend(shared_servers, cassandra_cluster)
    cassandra_cluster.wait_ready()
    return cassandra_cluster


def _mend(shared_servers: SharedServers, cluster: CassandraCluster) -> None:
    for node, proxy in zip(cluster.nodes, cluster.proxies, strict=True):
        proxy.heal()
        shared_servers.lend(node)


@pytest.fixture
def cluster_keyspace(shared_servers: SharedServers, whole_cluster: CassandraCluster) -> Iterator[str]:
    """The URL of a fresh keyspace on three nodes, reached through their proxies; dropped afterwards."""
    with whole_cluster.keyspace() as url:
        yield whole_cluster.proxied(url)
        _mend(shared_servers, whole_cluster)


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
def mariadb_database(shared_servers: SharedServers, mariadb_server: MariaServer) -> Iterator[str]:
    """The URL of a fresh database, `mysql://USER:PASSWORD@HOST:PORT/NAME`; dropped afterwards."""
    shared_servers.lend(mariadb_server)
    with mariadb_server.database() as url:
        yield url
        put_right(mariadb_server)


@pytest.fixture
def kafka_topic(shared_servers: SharedServers, kafka_server: KafkaServer) -> Iterator[str]:
    """The URL of a fresh topic of one partition, `kafka://HOST:PORT/TOPIC`; deleted afterwards."""
    shared_servers.lend(kafka_server)
    with kafka_server.topic() as url:
        yield url
        put_right(kafka_server)


@pytest.fixture
def ftp_site(shared_servers: SharedServers, ftp_server: FtpServer) -> FtpServer:
    """The FTP server without any files."""
    shared_servers.lend(ftp_server)
    ftp_server.empty()
    return ftp_server


@pytest.fixture
def vsftpd_site(shared_servers: SharedServers, vsftpd_server: VsftpdServer) -> VsftpdServer:
    """vsftpd without any files."""
    shared_servers.lend(vsftpd_server)
    vsftpd_server.empty()
    return vsftpd_server


@pytest.fixture
def sftp_site(shared_servers: SharedServers, sftp_server: SftpServer) -> SftpServer:
    """The SFTP server without any files."""
    shared_servers.lend(sftp_server)
    sftp_server.empty()
    return sftp_server


@pytest.fixture
def clickhouse_database(shared_servers: SharedServers, clickhouse_server: ClickHouseServer) -> Iterator[str]:
    """The URL of a fresh database, `http://HOST:PORT/NAME`; dropped afterwards."""
    shared_servers.lend(clickhouse_server)
    clickhouse_server.refuse_blocks(0)
    with clickhouse_server.database() as url:
        yield url
        put_right(clickhouse_server)


@pytest.fixture
def fault_proxy(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Proxy]]:
    """`fault_proxy(url)` opens a proxy before the server of this URL; all are closed afterwards."""
    shared = request.config.stash[SHARED]
    with ExitStack() as open_proxies:
        yield lambda url: open_proxies.enter_context(shared.new_proxy(url))
