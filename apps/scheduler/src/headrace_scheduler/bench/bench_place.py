"""Where it is measured: a keyspace of its own on a Cassandra node of the rig, or on one that the environment names."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import MissingExtra
from headrace.tables import CassandraOptions, apply_schema
from headrace_scheduler.bench.plain_driver import plain_session
from headrace_scheduler.frame import FRAME
from headrace_scheduler.tables.cassandra_tables import schema_part

if TYPE_CHECKING:
    from headrace.testing import CassandraServer

CONTACT_POINT = "CASSANDRA_CONTACT_POINT"
_TICKS_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor time of a process since its start, and its memory now."""

    cpu_s: float = 0.0
    rss_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class BenchPlace:
    """`delayed` is the same node behind a proxy that adds to every message; None: there is none before a foreign one.
    `server_pid` is known of a node of the rig."""

    direct: CassandraOptions
    delayed: CassandraOptions | None = None
    server_pid: int | None = None

    def server(self) -> Usage:
        return usage(self.server_pid) if self.server_pid is not None else Usage()

    @contextmanager
    def keyspace(self) -> Iterator[BenchPlace]:
        """The same place with a fresh keyspace, dropped at the end."""
        name = f"bench_{secrets.token_hex(6)}"
        direct = replace(self.direct, keyspace=name)
        asyncio.run(apply_schema(direct, None, [schema_part()]))
        try:
            delayed = None if self.delayed is None else replace(self.delayed, keyspace=name)
            yield replace(self, direct=direct, delayed=delayed)
        finally:
            with plain_session(direct, "") as session:
                session.execute(f"DROP KEYSPACE {name}", timeout=60.0)


def usage(pid: int) -> Usage:
    """Of a process that lives."""
    _, _, fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(") ")
    values = fields.split()
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return Usage((int(values[11]) + int(values[12])) / _TICKS_S, pages * os.sysconf("SC_PAGE_SIZE") / 1024**2)


def variables(options: CassandraOptions) -> dict[str, str]:
    """How a service is led there."""
    return {
        CONTACT_POINT: ",".join(options.hosts),
        "CASSANDRA_PORT": str(options.port),
        "CASSANDRA_KEYSPACE": options.keyspace,
        "CASS_LOCAL_DC": options.local_dc,
    }


def url_of(options: CassandraOptions) -> str:
    return FRAME.load(variables(options)).cassandra_url


@contextmanager
def bench_place(environment: Mapping[str, str], delay_s: float, say: Callable[[str], None]) -> Iterator[BenchPlace]:
    """The node that the environment names, or one of the rig for as long as the block runs."""
    if CONTACT_POINT in environment:
        given = {name: value for name, value in environment.items() if name != "SCHEDULER_HOME"}
        yield BenchPlace(CassandraOptions.of(FRAME.load(given).cassandra_url))
        return
    try:
        from headrace.testing import CassandraServer, obtain

        obtain(("cassandra",), say)
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the rig needs {error.name}", "pip install headrace-scheduler 'headrace[rig]'") from None
    say("starting a cassandra node …")
    with CassandraServer() as server, place_on(server, delay_s) as place:
        yield place


@contextmanager
def place_on(server: CassandraServer, delay_s: float) -> Iterator[BenchPlace]:
    """A node of the rig, with a proxy before it that delays every message."""
    with ExitStack() as stack:
        proxy = stack.enter_context(server.new_proxy())
        proxy.latency(delay_s)
        direct = CassandraOptions.of(server.url_of("bench"))
        yield BenchPlace(direct, replace(direct, hosts=(proxy.host,)), server.pid)
