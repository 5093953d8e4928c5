"""Three Cassandra nodes on 127.0.0.1 to 127.0.0.3, which share their ports and can be killed and come back one by one.

All nodes are seeds and have their share of the ring from the beginning, so they start together. `proxied` puts a proxy
before each node, at an address that the nodes tell drivers: whatever node a driver finds, it reaches it through that
node's proxy. Links between the nodes do not pass any: kill or pause a node instead of cutting it off.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self
from urllib.parse import urlsplit

from headrace.core.errors import OperatorError
from headrace.testing.rig import ports
from headrace.testing.rig.cassandra import START_S_MAX, CassandraServer, NodePlace
from headrace.testing.rig.cassandra_requests import Consistency, StatementRefused
from headrace.testing.rig.cluster import ServerCluster, all_at_once
from headrace.testing.rig.proxy import Proxy

# Tables of the cluster itself are kept on three nodes: who reads them from all replicas learns how many there are.
COUNT = 3
FROM_ALL = "SELECT keyspace_name FROM system_distributed.view_build_status WHERE keyspace_name = '' AND view_name = ''"
RING = 2**64
KNOWN_S_MAX = 30.0


class CassandraCluster(ServerCluster[CassandraServer]):
    """Settings are those of every node."""

    def __init__(self, settings: Mapping[str, str] | None = None, proxied: bool = False) -> None:
        self._ports = (ports.reserve_port(), ports.reserve_port())
        addresses = [f"127.0.0.{number}" for number in range(1, COUNT + 1)]
        self.nodes = [
            CassandraServer(
                settings,
                NodePlace(
                    address=address,
                    told=address.replace("127.0.0.", "127.0.2.") if proxied else address,
                    seeds=tuple(addresses),
                    token=RING * number // COUNT - RING // 2,
                    ports=self._ports,
                ),
            )
            for number, address in enumerate(addresses)
        ]
        self.proxies: list[Proxy] = [node.new_proxy() for node in self.nodes] if proxied else []
        self._are_open = False

    def start(self) -> Self:
        all_at_once([node.start for node in self.nodes if not node.running])
        if not self._are_open:
            for proxy in self.proxies:
                proxy.open()
            self._are_open = True
        self.wait_ready()
        return self

    def wait_ready(self, timeout_s: float = START_S_MAX) -> None:
        deadline = time.monotonic() + timeout_s
        running = [node for node in self.nodes if node.running]
        for node in running:
            node.wait_ready(timeout_s)
        while (seen := [_seen_by(node) for node in running]) != [len(running)] * len(running):
            if time.monotonic() > deadline:
                raise OperatorError(f"{len(running)} nodes run, and they see {seen}\n{self.log()[-3000:]}")
            time.sleep(0.05)

    @contextmanager
    def keyspace(self, replicas: int = COUNT) -> Iterator[str]:
        """The URL of a fresh keyspace on all nodes, dropped at the end."""
        running = [node for node in self.nodes if node.running]
        with running[0].keyspace(replicas) as url:
            for node in running[1:]:
                _wait_for_keyspace(node, urlsplit(url).path[1:])
            yield url

    def proxied(self, url: str) -> str:
        """The same keyspace, reached through the proxies of all nodes."""
        direct = urlsplit(url)
        hosts = ",".join(proxy.host for proxy in self.proxies)
        return direct._replace(netloc=f"{hosts}:{direct.port}").geturl()

    def remove(self) -> None:
        for proxy in self.proxies:
            proxy.close()
        super().remove()
        for port in self._ports:
            ports.give_back(port)


def _wait_for_keyspace(node: CassandraServer, name: str) -> None:
    """A node hears of a keyspace that another has made, some time later."""
    deadline = time.monotonic() + KNOWN_S_MAX
    while True:
        try:
            return node.execute(f"USE {name}")
        except (StatementRefused, ConnectionError):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _seen_by(node: CassandraServer) -> int | None:
    """How many nodes this one sees; None while it waits for one that it takes for alive and that does not answer."""
    try:
        node.execute(FROM_ALL, Consistency.ALL)
    except StatementRefused as error:
        return error.alive_count
    except OSError:
        return None
    return COUNT
