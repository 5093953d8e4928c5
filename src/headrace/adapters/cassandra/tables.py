"""An application's own tables in a keyspace, and its locks, on one session.

    async with CassandraTables.open(url, "shop") as tables:
        rows = await tables.rows("cart", customer=7)
        lock = await tables.leases.acquire("cart:7", "worker-1", 30.0)

Statements stand in the package's `cql/*.cql`: see `statements`. Tables are made by `schema.apply_schema`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from headrace.adapters.cassandra.leases import CassandraLeases, Observe
from headrace.adapters.cassandra.options import CassandraOptions
from headrace.adapters.cassandra.schema import check_keyspace
from headrace.adapters.cassandra.session import CassandraSession, CqlRow
from headrace.adapters.cassandra.statements import statements


class CassandraTables:
    """Named statements of a package, and the leases of the same keyspace."""

    def __init__(self, session: CassandraSession, leases: CassandraLeases) -> None:
        self.session, self.leases = session, leases

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        where: str | CassandraOptions,
        package: str = "",
        *,
        settings: Mapping[str, str] | None = None,
        observe: Observe | None = None,
    ) -> AsyncIterator[CassandraTables]:
        """Open a keyspace whose schema was applied. `settings` are those of the application that must be recorded
        there; `observe` is called after every operation on a lease."""
        options = CassandraOptions.of(where) if isinstance(where, str) else where
        session = await CassandraSession.open(options)
        leases = CassandraLeases(session, observe)
        try:
            await check_keyspace(session, settings)
            if package:
                await session.prepare(statements(package))
            await leases.start()
            yield cls(session, leases)
        finally:
            await leases.stop()
            await session.close()

    async def rows(self, name: str, /, **values: Any) -> list[CqlRow]:
        """Run a statement; its rows, with aware moments. Of a conditional write the first column says whether it was
        applied. `Unknown`: it was sent, and its answer was lost. `Unreachable`: nothing was written."""
        return list((await self.session.run(name, values)).rows)

    async def run_together(self, *writes: tuple[str, Mapping[str, Any]]) -> None:
        """Run plain writes, each a name and its values, as one message: see `CassandraSession.run_together`."""
        await self.session.run_together(writes)
