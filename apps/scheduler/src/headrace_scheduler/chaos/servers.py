"""The servers of a run of chaos, from the rig: Cassandra behind proxies, PostgreSQL, and libfaketime for clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import MissingExtra
from headrace.tables import CassandraOptions
from headrace_scheduler.rig_servers import CLUSTER, KEYSPACE, make_keyspace

if TYPE_CHECKING:
    from headrace.testing import CassandraServer, Proxy

FAKETIME = "libfaketime"
SERVERS = ("cassandra", "postgres", FAKETIME)


@dataclass(frozen=True, slots=True)
class ChaosServers:
    """`variables` lead services to the servers, to Cassandra through its proxies. `library` is libfaketime's."""

    nodes: Sequence[CassandraServer]
    proxies: Sequence[Proxy]
    variables: Mapping[str, str]
    library: Path

    @classmethod
    def of(
        cls, nodes: Sequence[CassandraServer], proxies: Sequence[Proxy], keyspace: str, database: str
    ) -> ChaosServers:
        """Those that run already, and what names them."""
        from headrace.testing import tool_path

        variables = {
            "CASSANDRA_CONTACT_POINT": ",".join(proxy.host for proxy in proxies),
            "CASSANDRA_PORT": str(nodes[0].port),
            "CASSANDRA_KEYSPACE": keyspace,
            "CASS_LOCAL_DC": "datacenter1",
            "ORDERS_PG_DSN": database,
        }
        return cls(nodes, proxies, variables, tool_path(FAKETIME))


@contextmanager
def chaos_servers(say: Callable[[str], None], node_count: int) -> Iterator[ChaosServers]:
    """Start the servers, apply the schema, and remove everything at the end."""
    try:
        from headrace.testing import CassandraCluster, CassandraServer, new_server, obtain

        obtain(SERVERS, say)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the rig needs {error.name}", "pip install headrace-scheduler 'headrace[rig]'") from None
    with ExitStack() as stack:
        nodes: Sequence[CassandraServer]
        proxies: Sequence[Proxy]
        if node_count == CLUSTER:
            say("starting three cassandra nodes …")
            cluster = stack.enter_context(CassandraCluster(proxied=True))
            nodes, proxies = cluster.nodes, cluster.proxies
        else:
            say("starting one cassandra node …")
            nodes = [stack.enter_context(CassandraServer())]
            proxies = [stack.enter_context(nodes[0].new_proxy())]
        say("starting postgres …")
        postgres = stack.enter_context(new_server("postgres"))
        say(f"making the keyspace {KEYSPACE} …")
        asyncio.run(make_keyspace(CassandraOptions.of(nodes[0].url_of(KEYSPACE))))
        yield ChaosServers.of(nodes, proxies, KEYSPACE, postgres.url)
