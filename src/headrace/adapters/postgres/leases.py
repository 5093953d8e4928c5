"""Leases on PostgreSQL: one row per named resource, kept for ever. The server's own clock judges."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial

from headrace.adapters.postgres.calls import Row, rows
from headrace.adapters.postgres.lanes import Lanes
from headrace.core.errors import CallerError, NotFound
from headrace.core.leases import Lease, Leased

PAGE_MAX = 1_000


class PostgresLeases:
    """`ports.leases.Leases` in one database."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes

    async def acquire(self, name: str, holder: str, hold_s: float) -> Leased:
        _check(name, holder)
        return _leased(name, (await self._write("lease_acquire", (name, holder, hold_s)))[0])

    async def renew(self, name: str, fence: int, hold_s: float) -> bool:
        values = {"name": name, "fence": fence, "hold_s": hold_s}
        return bool(await self._lanes.write(lambda connection: rows(connection, "lease_renew", values)))

    async def release(self, name: str, fence: int) -> bool:
        return bool(await self._write("lease_release", (name, fence)))

    async def takeover(self, name: str, holder: str, epoch: int, hold_s: float) -> Leased:
        _check(name, holder)
        found = await self._write("lease_takeover", (name, holder, epoch, hold_s))
        if not found:
            raise NotFound(f"{name!r} was never held", "acquire it")
        return _leased(name, found[0])

    async def look(self, name: str) -> Lease | None:
        found = await self._lanes.read(lambda connection: rows(connection, "lease_look", (name,)))
        return Lease(name, *found[0]) if found else None

    async def leases(self) -> AsyncIterator[Lease]:
        after = ""
        while page := await self._lanes.read(partial(rows, name="lease_page", values=(after, PAGE_MAX))):
            for row in page:
                yield Lease(*row)
            after = page[-1][0]

    async def _write(self, statement: str, values: Sequence[object]) -> list[Row]:
        return await self._lanes.write(lambda connection: rows(connection, statement, values))


def _check(name: str, holder: str) -> None:
    if not name or not holder:
        raise CallerError("a lease needs a name and a holder")


def _leased(name: str, row: Row) -> Leased:
    granted, *lease = row
    return Leased(granted, Lease(name, *lease))
