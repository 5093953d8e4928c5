"""Calls on a connection: named statements, prepared once, binary both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.adapters.postgres.connections import Connection
from headrace.adapters.postgres.statements import statements
from headrace.core.graph import Graph

Row = tuple[Any, ...]
Values = Sequence[Any] | Mapping[str, Any]


def rows(connection: Connection, name: str, values: Values = ()) -> list[Row]:
    return connection.cursor(binary=True).execute(statements()[name].encode(), values).fetchall()


def one(connection: Connection, name: str, values: Values = ()) -> Row:
    """The row of a statement that always has one."""
    return rows(connection, name, values)[0]


class Graphs:
    """The graphs of jobs by digest; they never change, so they are read once."""

    def __init__(self) -> None:
        self._known: dict[str, Graph] = {}

    def __getitem__(self, digest: str) -> Graph:
        return self._known[digest]

    def learn(self, connection: Connection, digests: set[str]) -> None:
        missing = digests - self._known.keys()
        if missing:
            for digest, body in rows(connection, "graphs_of", (sorted(missing),)):
                self._known[digest] = Graph.load(body)

    def one(self, connection: Connection, digest: str) -> Graph:
        self.learn(connection, {digest})
        return self._known[digest]
