"""One write transaction: named statements, the store's clock, and whether workers should be woken after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import apsw

from headrace.core.errors import NotFound
from headrace.core.graph import Graph
from headrace.ports.seams import Clock

Row = tuple[Any, ...]


@dataclass(slots=True)
class Memory:
    """What a handle need not ask the store again: graphs, and recorded statements it has looked at."""

    graphs: dict[str, Graph] = field(default_factory=dict)
    approved: set[str] = field(default_factory=set)


class Transaction:
    """Everything a piece of account work may touch. Nothing here awaits, and nothing here is user code."""

    __slots__ = ("_connection", "_statements", "boot", "clock", "memory", "rang")

    def __init__(
        self, connection: apsw.Connection, statements: Mapping[str, str], clock: Clock, memory: Memory
    ) -> None:
        self._connection = connection
        self._statements = statements
        self.memory = memory
        self.clock = clock
        self.boot = clock.boot_id()
        self.rang = False

    @property
    def connection(self) -> apsw.Connection:
        """For statements that are not ours."""
        return self._connection

    def all(self, name: str, /, **values: Any) -> list[Row]:
        return self._connection.execute(self._statements[name], values).fetchall()

    def one(self, name: str, /, **values: Any) -> Row | None:
        """The first row; the statement always runs to its end."""
        rows = self._connection.execute(self._statements[name], values).fetchall()
        return rows[0] if rows else None

    def value(self, name: str, /, **values: Any) -> Any:
        row = self.one(name, **values)
        return None if row is None else row[0]

    def run(self, name: str, /, **values: Any) -> int:
        """Execute, and say how many rows it changed."""
        self._connection.execute(self._statements[name], values).fetchall()
        return self._connection.changes()

    def graph(self, digest: str) -> Graph:
        graph = self.memory.graphs.get(digest)
        if graph is None:
            body = self.value("graph_body", digest=digest)
            if body is None:
                raise NotFound(f"the graph {digest} is not in the store")
            graph = self.memory.graphs[digest] = Graph.load(body)
        return graph

    def wall(self) -> float:
        return self.clock.wall()

    def now(self) -> float:
        return self.clock.monotonic()
