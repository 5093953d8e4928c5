"""The servers of the scheduler from the rig, for as long as a block runs.

Three Cassandra nodes where the machine has the memory for them, else one; PostgreSQL, and a Prometheus that scrapes the
services.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from headrace.errors import MissingExtra
from headrace.services import patiently
from headrace.tables import CassandraOptions, apply_schema
from headrace_scheduler.rig_keeper import kept
from headrace_scheduler.tables.cassandra_tables import schema_part

if TYPE_CHECKING:
    from headrace.testing import CassandraServer, PrometheusServer

KEYSPACE = "job_scheduler"
SERVERS = ("cassandra", "postgres", "prometheus")
CLUSTER = 3
SCHEMA_S_MAX = 120.0
# A node of the rig takes some 300 MB, and a machine that swaps loses leases.
CLUSTER_BYTES_MIN = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class RigServers:
    """`variables` name the servers to services and to commands in another shell."""

    variables: Mapping[str, str]
    prometheus: PrometheusServer

    def scrape(self, urls: Mapping[str, str]) -> None:
        """Look at these services from now on, and at no others."""
        self.prometheus.scrape([urlsplit(url).netloc for url in urls.values()], job="scheduler")


@contextmanager
def rig_servers(say: Callable[[str], None], nodes: int | None = None) -> Iterator[RigServers]:
    """Start the servers, apply the schema, and remove everything at the end."""
    try:
        from headrace.testing import PrometheusServer, new_server, obtain

        obtain(SERVERS, say)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the rig needs {error.name}", "pip install headrace-scheduler 'headrace[rig]'") from None
    with ExitStack() as stack:
        cassandra = _cassandra(stack, say, nodes or node_count(available_bytes()))
        say("starting postgres and prometheus …")
        postgres = stack.enter_context(new_server("postgres"))
        prometheus = stack.enter_context(PrometheusServer())
        variables = {
            "CASSANDRA_CONTACT_POINT": ",".join(node.place.address for node in cassandra),
            "CASSANDRA_PORT": str(cassandra[0].port),
            "CASSANDRA_KEYSPACE": KEYSPACE,
            "CASS_LOCAL_DC": "datacenter1",
            "ORDERS_PG_DSN": postgres.url,
        }
        say(f"making the keyspace {KEYSPACE} …")
        asyncio.run(make_keyspace(CassandraOptions.of(cassandra[0].url_of(KEYSPACE))))
        stack.enter_context(kept([*cassandra, postgres, prometheus], say))
        yield RigServers(variables, prometheus)


async def make_keyspace(options: CassandraOptions) -> None:
    """Three nodes that have just started on a busy machine may leave a statement unanswered; again changes nothing."""
    await patiently(lambda: apply_schema(options, None, [schema_part()]), SCHEMA_S_MAX, asyncio.Event())


def node_count(free_bytes: int) -> int:
    """How many nodes a machine with so much free memory has room for."""
    return CLUSTER if free_bytes >= CLUSTER_BYTES_MIN else 1


def available_bytes() -> int:
    """What programs may take before the machine swaps."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            name, value, *_ = line.split()
            if name == "MemAvailable:":
                return int(value) * 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cassandra(stack: ExitStack, say: Callable[[str], None], nodes: int) -> list[CassandraServer]:
    from headrace.testing import CassandraCluster, CassandraServer

    if nodes == CLUSTER:
        say("starting three cassandra nodes …")
        return list(stack.enter_context(CassandraCluster()).nodes)
    say("starting one cassandra node: three want 2 GB of free memory …")
    node = CassandraServer()
    stack.enter_context(node)
    return [node]
