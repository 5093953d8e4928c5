"""A real Kafka 4 broker on loopback, its own controller (KRaft), small enough for a machine of two cores.

An acknowledged record survives kill -9: it was written, and the kernel still holds it. As everywhere with Kafka it is
not synced before; against a power cut an installation has further brokers, or the setting `log.flush.interval.messages`
with the value 1.

A broker tells its clients where it is, and they connect there: they walk around a proxy that stands anywhere else. So
there is a second listener, which tells the address of a proxy; `new_proxy` stands there, one at a time.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from headrace.testing.rig import kafka_requests
from headrace.testing.rig.cached import cached
from headrace.testing.rig.java import HEAP, HEAP_DEFAULT, JavaServer
from headrace.testing.rig.kafka_requests import RequestRefused
from headrace.testing.rig.needs import JavaRuntime, MavenClosure
from headrace.testing.rig.proxy import Proxy

JARS = MavenClosure("kafka", "4.2.0")
JAVA = JavaRuntime("openjdk-17-jre-headless", "17", "java")
# Some seconds of a core where nothing else runs: ten times as long where others use them too.
START_S_MAX = 120.0
CLUSTER = "aGVhZHJhY2UtcmlnLTAwMQ"
SMALL = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # There is one broker: what Kafka keeps for itself cannot have three copies.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # A broker that comes back after a kill is let in when the session that it had before is over.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Nobody waits for further members of a group.
    "group.initial.rebalance.delay.ms": "0",
    # A test that kills a member need not wait for six seconds until the group knows.
    "group.min.session.timeout.ms": "1000",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.dedupe.buffer.size": "8388608",
}
JVM = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)


class KafkaServer(JavaServer):
    """Settings are those of server.properties."""

    name: ClassVar[str] = "kafka"
    jars, java = JARS, JAVA
    needs = (JARS, JAVA)

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._controller_port, self._behind_proxy, self._told = (self.reserve_port() for _ in range(3))

    @property
    def url(self) -> str:
        return f"kafka://127.0.0.1:{self.port}"

    def url_of(self, topic: str) -> str:
        return f"{self.url}/{topic}"

    def variables(self, url: str) -> dict[str, str]:
        return {"KAFKA_URL": url, "KAFKA_BOOTSTRAP": urlsplit(url).netloc}

    def new_proxy(self, url: str | None = None) -> Proxy:
        whole = (url or self.url).replace(f":{self.port}", f":{self._behind_proxy}", 1)
        return Proxy(whole, ("127.0.0.1", self._told))

    def prepare(self) -> None:
        """A data directory is made once and copied from then on: making one starts a Java machine of its own."""
        options = hashlib.sha256(f"{SMALL}{CLUSTER}".encode()).hexdigest()[:8]
        fresh = cached(f"kafka-data-{JARS.version}-{options}-{self.home.stat().st_uid}", self._make_data)
        self.run("cp", "-a", "--reflink=auto", str(fresh / "data"), str(self._data))

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        lines = dict(settings)
        heap = lines.pop(HEAP, HEAP_DEFAULT)
        properties = str(self._write_properties(self._data, lines))
        return [*self.java_line(heap, *self.archive_options(), *JVM), "kafka.Kafka", properties]

    def ask(self) -> None:
        """Whether there is a broker that takes requests: it says itself when it is one."""
        if kafka_requests.broker_count(self._address) == 0:
            raise ConnectionError("no broker takes requests yet")

    def wait_ready(self, timeout_s: float = START_S_MAX) -> None:
        super().wait_ready(timeout_s)

    @contextlib.contextmanager
    def topic(self, partitions: int = 1) -> Iterator[str]:
        """The URL of a fresh topic, `kafka://HOST:PORT/TOPIC`; deleted at the end with its records."""
        name = f"test-{secrets.token_hex(6)}"
        kafka_requests.create_topic(self._address, name, partitions)
        try:
            yield self.url_of(name)
        finally:
            # One that a test left dead takes its topics along when it is removed.
            if self.running:
                with contextlib.suppress(RequestRefused):
                    kafka_requests.delete_topic(self._address, name)

    @property
    def _address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def _data(self) -> Path:
        return self.home / "data"

    def _make_data(self, folder: Path) -> None:
        data = folder / "data"
        data.mkdir(mode=0o700)
        self.hand_over(data)
        properties = str(self._write_properties(data, {}))
        self.run(
            *self.java_line(HEAP_DEFAULT, *JVM), "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", properties
        )

    def _write_properties(self, data: Path, settings: Mapping[str, str]) -> Path:
        listeners = {"PLAINTEXT": self.port, "PROXIED": self._behind_proxy, "CONTROLLER": self._controller_port}
        told = {"PLAINTEXT": self.port, "PROXIED": self._told}
        lines = {
            **SMALL,
            **settings,
            "listeners": _listeners(listeners),
            "advertised.listeners": _listeners(told),
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "log.dirs": str(data),
        }
        return self.write("server.properties", "".join(f"{name}={value}\n" for name, value in lines.items()))


def _listeners(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
