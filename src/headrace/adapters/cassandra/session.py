"""The one bridge between `cassandra-driver` and asyncio.

The driver sends on its own network thread and answers there by callback; an answer crosses to the event loop once, and
those that come together wake it once. No statement has a thread of its own. Only connecting, preparing, making tables
and closing block, and do so in a thread. No write is retried here: the driver's retry of a conditional write would hide
who won. A read whose node is gone is sent to the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, ResponseFuture
from cassandra.policies import (
    ConstantSpeculativeExecutionPolicy,
    DCAwareRoundRobinPolicy,
    ExponentialReconnectionPolicy,
    FallthroughRetryPolicy,
    TokenAwarePolicy,
)
from cassandra.query import BatchStatement, BatchType, BoundStatement, PreparedStatement

from headrace.adapters.cassandra.failures import connect_failure, failure
from headrace.adapters.cassandra.moments import MomentProtocol
from headrace.adapters.cassandra.options import CassandraOptions
from headrace.adapters.cassandra.statements import CqlStatement
from headrace.core.errors import CallerError, NotFound, OperatorError, TooLarge, Unreachable

# A node that comes back is used within seconds, and one that stays away costs next to nothing.
RECONNECT_S_MIN, RECONNECT_S_MAX = 0.25, 5.0
# A node that stops without closing its connections (frozen, cut off) is found out by these: whatever waits for it fails
# within their sum, and goes to another node. Long enough for a server that collects garbage on a busy machine.
HEARTBEAT_S, HEARTBEAT_ANSWER_S_MAX = 1.0, 2.0
# Until then a read that is not answered is sent to a second and a third node: it changes nothing, so the first answer
# counts. A write is never sent twice.
READ_ELSEWHERE_S, READ_ELSEWHERE_MAX = 0.75, 2
# All nodes of a cluster agree on a new table before there is an answer.
DEFINE_S_MAX = 30.0

# Servers complain of a batch over several partitions from 5 KiB on, and refuse it from 50: each partition has a message
# of its own then.
TOGETHER_BYTES_MAX = 4_096

CqlRow = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class CqlRows:
    """The rows of an answer and the names of their columns; moments are aware, in UTC."""

    columns: Sequence[str] = ()
    rows: Sequence[CqlRow] = ()

    @property
    def applied(self) -> bool:
        """Whether a conditional write was applied."""
        return bool(self.rows) and self.rows[0][0] is True

    def first(self) -> dict[str, Any] | None:
        """The first row by column."""
        return dict(zip(self.columns, self.rows[0], strict=True)) if self.rows else None


class CassandraSession:
    """Prepared statements by name on one keyspace, awaited."""

    def __init__(self, options: CassandraOptions, cluster: Any, driver: Any) -> None:
        self.options, self._cluster, self._driver = options, cluster, driver
        self._statements: dict[str, CqlStatement] = {}
        self._prepared: dict[str, PreparedStatement] = {}
        self._names: dict[str, frozenset[str]] = {}
        self._room = asyncio.Semaphore(options.in_flight_max)
        self._loop = asyncio.get_running_loop()
        self._crossing = _Crossing(self._loop)
        self._closed = False

    @classmethod
    async def open(cls, options: CassandraOptions, *, keyspace: bool = True) -> CassandraSession:
        """Connect. Without `keyspace` the session is in none: for those who make it."""
        cluster = _cluster(options)
        where = f"{','.join(options.hosts)}:{options.port}"
        try:
            driver = await asyncio.to_thread(_connect, cluster, options.keyspace if keyspace else "")
        except Exception as error:  # the driver raises its own errors, and those of sockets
            known = sorted({str(host.datacenter) for host in cluster.metadata.all_hosts() if host.datacenter})
            await asyncio.to_thread(cluster.shutdown)
            if known and options.local_dc not in known:
                message = f"{where} has no data centre {options.local_dc}, only {', '.join(known)}"
                raise OperatorError(message, f"write local_dc={known[0]}") from error
            raise connect_failure(error, where) from error
        return cls(options, cluster, driver)

    async def prepare(self, statements: Mapping[str, CqlStatement]) -> None:
        """Let these be run by name. `SchemaMismatch`: a table of theirs is missing."""
        for name in statements.keys() & self._statements.keys():
            if statements[name] != self._statements[name]:
                raise CallerError(f"there are two statements called {name}")
        fresh = [each for name, each in statements.items() if name not in self._statements]
        self._check_open()
        await asyncio.to_thread(self._prepare, fresh)
        self._statements.update({each.name: each for each in fresh})

    async def run(self, name: str, values: Mapping[str, Any] | None = None) -> CqlRows:
        """Run a statement with its values. Rows come whole; `TooLarge`: more than `rows_max` of them."""
        bound = self._bound(name, values or {})
        return await self._answer(bound, self._statements[name])

    async def run_together(self, writes: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Run plain writes as one message. Those to one partition are applied all or none, also in several tables; of
        the others a part may be, if there is no answer: none waits for another."""
        groups: dict[tuple[int, bytes], list[BoundStatement]] = {}
        for name, values in writes:
            bound, statement = self._bound(name, values), self._statements[name]
            if statement.reads or statement.conditional:
                raise CallerError(f"{name} has an answer of its own", "send plain writes together")
            groups.setdefault((bound.consistency_level, bound.routing_key), []).append(bound)
        messages: dict[object, list[BoundStatement]] = {}
        is_small = sum(map(_size, chain.from_iterable(groups.values()))) <= TOGETHER_BYTES_MAX
        for key, group in groups.items():
            # A message has one level of consistency.
            messages.setdefault(key[0] if is_small else key, []).extend(group)
        statement = self._statements[writes[0][0]]
        await asyncio.gather(*(self._answer(_message(each), statement) for each in messages.values()))

    def _bound(self, name: str, values: Mapping[str, Any]) -> BoundStatement:
        if name not in self._statements:
            raise NotFound(f"there is no statement {name}", "session.prepare(…) makes some known")
        if values.keys() != self._names[name]:
            wanted = ", ".join(sorted(self._names[name]))
            raise CallerError(f"{name} takes {wanted or 'nothing'}, and got {', '.join(sorted(values)) or 'nothing'}")
        try:
            return self._prepared[name].bind(dict(values))
        except Exception as error:  # a type of the driver raises whatever a value does not have
            raise CallerError(f"{name}: {error}") from error

    async def _answer(self, message: BoundStatement | BatchStatement, statement: CqlStatement) -> CqlRows:
        self._check_open()
        await self._room.acquire()
        answer: asyncio.Future[CqlRows] = self._loop.create_future()
        try:
            exchange = _Exchange(self._crossing, answer, self._room, self.options.rows_max)
            exchange.send(self._driver.execute_async(message))
        except Exception as error:  # as above
            self._room.release()
            raise failure(error, statement) from error
        try:
            return await answer
        except TooLarge:
            raise
        except Exception as error:  # every error of the driver has one meaning, found in one place
            raise failure(error, statement) from error

    def takes(self, name: str) -> frozenset[str]:
        """The names of a statement's values."""
        return self._names[name]

    async def define(self, text: str) -> None:
        """Run a statement that makes a keyspace or a table, and wait until all nodes know it."""
        self._check_open()
        try:
            await asyncio.to_thread(self._driver.execute, text, timeout=DEFINE_S_MAX)
        except Exception as error:  # as above
            raise failure(error, CqlStatement.of(text.split("(")[0].strip(), text)) from error

    @property
    def driver(self) -> Any:
        """The driver's own session, for those who count or measure what is sent."""
        return self._driver

    @property
    def nodes(self) -> Mapping[str, int]:
        """How many nodes each data centre has."""
        found: dict[str, int] = {}
        for host in self._cluster.metadata.all_hosts():
            found[str(host.datacenter)] = found.get(str(host.datacenter), 0) + 1
        return found

    async def close(self) -> None:
        """Give everything back. What is in flight fails; what it wrote stays unknown."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._cluster.shutdown)

    def _check_open(self) -> None:
        if self._closed:
            raise Unreachable("the Cassandra session is closed")

    def _prepare(self, statements: Sequence[CqlStatement]) -> None:
        for statement in statements:
            if statement.operation not in self.options.consistency:
                raise CallerError(f"{statement.name}: there is no operation {statement.operation}")
            try:
                prepared = self._driver.prepare(statement.text)
            except Exception as error:  # as above
                raise failure(error, statement) from error
            level, serial = self.options.levels(statement.operation, reads=statement.reads)
            prepared.consistency_level = getattr(ConsistencyLevel, level)
            prepared.serial_consistency_level = getattr(ConsistencyLevel, serial)
            prepared.fetch_size = self.options.page_rows
            prepared.is_idempotent = statement.reads
            self._names[statement.name] = frozenset(column.name for column in prepared.column_metadata)
            self._prepared[statement.name] = prepared


def _message(writes: Sequence[BoundStatement]) -> BoundStatement | BatchStatement:
    if len(writes) == 1:
        return writes[0]
    batch = BatchStatement(BatchType.UNLOGGED, consistency_level=writes[0].consistency_level)
    for each in writes:
        batch.add(each)
    return batch


def _size(bound: BoundStatement) -> int:
    return sum(len(value) for value in bound.values if value)


class _Crossing:
    """The way from the driver's thread to the loop. Waking the loop costs more than an answer does, so what comes while
    it has been woken and has not begun yet goes along."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._answered: deque[tuple[_Exchange, CqlRows | None, Exception | None]] = deque()
        self._woken = False

    def send(self, exchange: _Exchange, rows: CqlRows | None, error: Exception | None) -> None:
        """Called on the driver's thread."""
        self._answered.append((exchange, rows, error))
        if not self._woken:
            self._woken = True
            # A loop that was closed meanwhile has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._arrive)

    def _arrive(self) -> None:
        # Cleared before the first is taken: an answer that comes from here on is taken below, or wakes the loop again.
        self._woken = False
        while self._answered:
            exchange, rows, error = self._answered.popleft()
            exchange.settle(rows, error)


class _Exchange:
    """One statement on its way: collects its pages on the driver's thread and answers on the loop, once."""

    def __init__(
        self,
        crossing: _Crossing,
        answer: asyncio.Future[CqlRows],
        room: asyncio.Semaphore,
        rows_max: int,
    ) -> None:
        self._crossing, self._answer, self._room, self._rows_max = crossing, answer, room, rows_max
        self._pages: list[CqlRows] = []

    def send(self, response: ResponseFuture) -> None:
        response.add_callbacks(self._page, self._failed, callback_args=(response,))

    def _page(self, page: CqlRows | None, response: ResponseFuture) -> None:
        if page is not None:
            self._pages.append(page)
        if sum(len(each.rows) for each in self._pages) > self._rows_max:
            self._cross(None, TooLarge(f"an answer of over {self._rows_max} rows", "ask with a LIMIT, or for less"))
        elif not response.has_more_pages:
            self._cross(_joined(self._pages), None)
        else:
            response.start_fetching_next_page()

    def _failed(self, error: Exception) -> None:
        self._cross(None, error)

    def _cross(self, rows: CqlRows | None, error: Exception | None) -> None:
        self._crossing.send(self, rows, error)

    def settle(self, rows: CqlRows | None, error: Exception | None) -> None:
        self._room.release()
        if self._answer.done():
            return
        if error is not None:
            self._answer.set_exception(error)
        else:
            self._answer.set_result(rows or CqlRows())


def _joined(pages: Sequence[CqlRows]) -> CqlRows:
    if len(pages) <= 1:
        return pages[0] if pages else CqlRows()
    return CqlRows(pages[0].columns, [row for each in pages for row in each.rows])


class ReadsElsewhere(FallthroughRetryPolicy):  # type: ignore[misc]
    """A read whose connection broke goes to the next node; everything else is for the caller to decide."""

    def on_request_error(
        self, query: Any, consistency: int, error: Exception, retry_num: int
    ) -> tuple[int, int | None]:
        # What prepares a statement has no query.
        if getattr(query, "is_idempotent", False) and retry_num < READ_ELSEWHERE_MAX:
            return self.RETRY_NEXT_HOST, None
        return self.RETHROW, None


def _cluster(options: CassandraOptions) -> Any:
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(options.local_dc)),
        retry_policy=ReadsElsewhere(),
        request_timeout=options.timeout_s,
        row_factory=CqlRows,
        speculative_execution_policy=ConstantSpeculativeExecutionPolicy(READ_ELSEWHERE_S, READ_ELSEWHERE_MAX),
    )
    login = PlainTextAuthProvider(options.username, options.password) if options.username else None
    return Cluster(
        contact_points=list(options.hosts),
        port=options.port,
        auth_provider=login,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        reconnection_policy=ExponentialReconnectionPolicy(RECONNECT_S_MIN, RECONNECT_S_MAX),
        connect_timeout=options.connect_timeout_s,
        control_connection_timeout=options.connect_timeout_s,
        idle_heartbeat_interval=HEARTBEAT_S,
        idle_heartbeat_timeout=min(options.timeout_s, HEARTBEAT_ANSWER_S_MAX),
        max_schema_agreement_wait=DEFINE_S_MAX,
        # Without it a statement waits for the acknowledgement of the one before: up to 40 ms on any line that is not
        # as short as loopback.
        sockopts=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        # Where the library is installed the driver compresses every message: of some hundred bytes each that saves
        # nothing, and costs an eighth of the processor time of both sides.
        compression=False,
        monitor_reporting_enabled=False,
        protocol_version=options.protocol_version,
    )


def _connect(cluster: Any, keyspace: str) -> Any:
    """In two steps: a keyspace that is missing is told from a node that does not answer."""
    driver = cluster.connect()
    driver.client_protocol_handler = MomentProtocol
    if keyspace:
        driver.set_keyspace(keyspace)
    return driver
