"""A real Cassandra 5 node on loopback, small enough for a machine of two cores.

The jars come without any configuration: what differs from Cassandra's own defaults stands in `SMALL`. An acknowledged
write survives kill -9.

A driver asks a node for the addresses of all nodes and connects to these: it walks around a proxy that stands anywhere
else. So a node tells clients an address of its own beside the one at which it listens, on the same port, because
Cassandra cannot tell another; `new_proxy` stands there. Whoever connects to the node directly stays with the address it
has used. Links between nodes do not pass a proxy: kill or pause a node instead.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit

from headrace.testing.rig import cassandra_requests
from headrace.testing.rig.cassandra_requests import Consistency, StatementRefused
from headrace.testing.rig.java import HEAP, HEAP_DEFAULT, JavaServer
from headrace.testing.rig.needs import JavaRuntime, MavenClosure
from headrace.testing.rig.proxy import Proxy

JARS = MavenClosure("cassandra", "5.0.8")
# Cassandra 5 starts on 11 and 17 only.
JAVA = JavaRuntime("openjdk-17-jre-headless", "17", "java")
# Its start takes some seconds of both cores: ten times as long where others use them too.
START_S_MAX = 180.0
DATACENTER = "datacenter1"
SMALL = {
    "cluster_name": "rig",
    "num_tokens": "1",
    "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
    "endpoint_snitch": "SimpleSnitch",
    "dynamic_snitch": "false",
    "commitlog_sync": "batch",
    "commitlog_segment_size": "8MiB",
    "commitlog_total_space": "64MiB",
    "memtable_heap_space": "32MiB",
    "memtable_offheap_space": "32MiB",
    "key_cache_size": "1MiB",
    "counter_cache_size": "0MiB",
    "file_cache_size": "16MiB",
    "networking_cache_size": "16MiB",
    "concurrent_reads": "8",
    "concurrent_writes": "8",
    "concurrent_counter_writes": "2",
    "concurrent_compactors": "1",
    "disk_optimization_strategy": "ssd",
    "auto_snapshot": "false",
    # A busy machine of two cores is slower than Cassandra's defaults of two seconds allow for.
    "write_request_timeout": "5s",
    "cas_contention_timeout": "5s",
}
LOGBACK = """<configuration>
<appender name="console" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%-5level %d{HH:mm:ss.SSS} %logger{0} %msg%n</pattern></encoder>
</appender>
<root level="INFO"><appender-ref ref="console"/></root>
</configuration>
"""
JVM = (
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=30",
    "-XX:MaxDirectMemorySize=128m",
    "-Djdk.attach.allowAttachSelf=true",
    "-Dcassandra-foreground=yes",
    "-Dcassandra.superuser_setup_delay_ms=0",
    # Every node knows its share of the ring from the beginning: there is nothing to wait for.
    "-Dcassandra.ring_delay_ms=0",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.shutdown_announce_in_ms=0",
)
# What Cassandra reaches into, by the modules that Java 17 has closed.
OPENED = (
    "java.base/java.io java.base/java.lang java.base/java.lang.module java.base/java.lang.reflect java.base/java.math "
    "java.base/java.net java.base/java.nio java.base/java.util java.base/java.util.concurrent "
    "java.base/java.util.concurrent.atomic java.base/jdk.internal.loader java.base/jdk.internal.math "
    "java.base/jdk.internal.module java.base/jdk.internal.ref java.base/jdk.internal.reflect "
    "java.base/jdk.internal.util.jar java.base/sun.nio.ch jdk.management/com.sun.management.internal"
)
EXPORTED = (
    "java.base/jdk.internal.misc java.base/jdk.internal.ref java.base/sun.nio.ch "
    "java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry java.rmi/sun.rmi.server "
    "java.rmi/sun.rmi.transport java.rmi/sun.rmi.transport.tcp java.sql/java.sql jdk.attach/sun.tools.attach "
    "jdk.unsupported/sun.misc"
)


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Where a node stands: its address, the one that it tells clients, and its share of the ring."""

    address: str = "127.0.0.1"
    told: str = "127.0.2.1"
    seeds: tuple[str, ...] = ("127.0.0.1",)
    token: int = 0
    # For clients and for other nodes; all nodes of a cluster use the same. None: ports of its own.
    ports: tuple[int, int] | None = None


class CassandraServer(JavaServer):
    """Settings are those of cassandra.yaml, by name."""

    name: ClassVar[str] = "cassandra"
    jars, java = JARS, JAVA
    needs = (JARS, JAVA)

    def __init__(self, settings: Mapping[str, str] | None = None, place: NodePlace | None = None) -> None:
        super().__init__(settings)
        self.place = place or NodePlace()
        self.port, self._storage_port = self.place.ports or (self.port, self.reserve_port())
        # Written down because the default might be in use; nothing listens there without encryption.
        self._idle_port = self.reserve_port()

    @property
    def url(self) -> str:
        return f"cassandra://{self.place.address}:{self.port}?local_dc={DATACENTER}"

    def url_of(self, keyspace: str) -> str:
        return f"cassandra://{self.place.address}:{self.port}/{keyspace}?local_dc={DATACENTER}"

    def variables(self, url: str) -> dict[str, str]:
        told = urlsplit(url)
        return {
            "CASSANDRA_URL": url,
            "CASSANDRA_CONTACT_POINT": str(told.hostname),
            "CASSANDRA_PORT": str(told.port),
            "CASS_LOCAL_DC": DATACENTER,
        }

    def new_proxy(self, url: str | None = None) -> Proxy:
        return Proxy(url or self.url, (self.place.told, self.port))

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        lines = {**SMALL, **settings}
        heap = lines.pop(HEAP, HEAP_DEFAULT)
        lines = {**self._place_lines(), **lines}
        self.write("cassandra.yaml", "".join(f"{name}: {value}\n" for name, value in lines.items()))
        self.write("logback.xml", LOGBACK)
        agents = [] if self.is_archiving else [f"-javaagent:{jar}" for jar in JARS.path().glob("jamm-*.jar")]
        options = [
            *self.archive_options(),
            *JVM,
            *agents,
            f"-Djna.tmpdir={self.home}",
            f"-Dcassandra.config=file://{self.home}/cassandra.yaml",
            f"-Dcassandra.storagedir={self.home}/data",
            f"-Dlogback.configurationFile={self.home}/logback.xml",
            *(f"--add-opens={module}=ALL-UNNAMED" for module in OPENED.split()),
            *(f"--add-exports={module}=ALL-UNNAMED" for module in EXPORTED.split()),
        ]
        return [*self.java_line(heap, *options), "org.apache.cassandra.service.CassandraDaemon"]

    def ask(self) -> None:
        """A read of its own tables."""
        try:
            self.execute("SELECT release_version FROM system.local")
        except StatementRefused as error:
            raise ConnectionError(str(error)) from error

    def wait_ready(self, timeout_s: float = START_S_MAX) -> None:
        super().wait_ready(timeout_s)

    def execute(self, statement: str, consistency: Consistency = Consistency.ONE) -> None:
        """Run one statement; what it answers, but for an error, is left aside."""
        cassandra_requests.execute((self.place.address, self.port), statement, consistency)

    @contextlib.contextmanager
    def keyspace(self, replicas: int = 1) -> Iterator[str]:
        """The URL of a fresh keyspace, dropped at the end with all that is in it."""
        name = f"test_{secrets.token_hex(6)}"
        replication = f"{{'class': 'NetworkTopologyStrategy', '{DATACENTER}': {replicas}}}"
        self.execute(f"CREATE KEYSPACE {name} WITH replication = {replication}")
        try:
            yield self.url_of(name)
        finally:
            # One that a test left dead takes its keyspaces along when it is removed.
            if self.running:
                self.execute(f"DROP KEYSPACE IF EXISTS {name}")

    def _place_lines(self) -> dict[str, str]:
        seeds = ",".join(self.place.seeds)
        return {
            "listen_address": self.place.address,
            "rpc_address": self.place.address,
            "broadcast_rpc_address": self.place.told,
            "native_transport_port": str(self.port),
            "storage_port": str(self._storage_port),
            "ssl_storage_port": str(self._idle_port),
            "initial_token": str(self.place.token),
            "seed_provider": (
                f'[{{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{{seeds: "{seeds}"}}]}}]'
            ),
        }
