"""Leases: one row per named resource, kept for ever, and one compare-and-set that grants it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from headrace.adapters.sqlite.store_transactions import Transactions
from headrace.adapters.sqlite.transaction import Transaction
from headrace.core.errors import CallerError, NotFound
from headrace.core.leases import Lease, Leased

PAGE_MAX = 1_000


class SqliteLeases:
    """`ports.leases.Leases` on one file."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def acquire(self, name: str, holder: str, hold_s: float) -> Leased:
        _check(name, holder)
        return await self._transactions.write(lambda tx: _acquire(tx, name, holder, hold_s))

    async def renew(self, name: str, fence: int, hold_s: float) -> bool:
        def work(tx: Transaction) -> bool:
            now = tx.now()
            return bool(tx.value("lease_renew", name=name, fence=fence, until=now + hold_s, now=now, boot=tx.boot))

        return await self._transactions.write(work)

    async def release(self, name: str, fence: int) -> bool:
        return await self._transactions.write(lambda tx: bool(tx.value("lease_release", name=name, fence=fence)))

    async def takeover(self, name: str, holder: str, epoch: int, hold_s: float) -> Leased:
        _check(name, holder)
        return await self._transactions.write(lambda tx: _takeover(tx, (name, holder), epoch, hold_s))

    async def look(self, name: str) -> Lease | None:
        return await self._transactions.read(lambda tx: _look(tx, name))

    async def leases(self) -> AsyncIterator[Lease]:
        """All that are held or have expired, by name; those that were released are left out."""
        after = ""
        while page := await self._transactions.read(partial(_page, after=after)):
            for lease in page:
                yield lease
            after = page[-1].name


def _check(name: str, holder: str) -> None:
    if not name or not holder:
        raise CallerError("a lease needs a name and a holder")


def _acquire(tx: Transaction, name: str, holder: str, hold_s: float) -> Leased:
    lease = _look(tx, name)
    if lease is None:
        tx.run("lease_first", name=name, holder=holder, fence=_mint(tx), until=tx.now() + hold_s, boot=tx.boot)
        return Leased(True, _held(tx, name))
    if not lease.holder:
        return _takeover(tx, (name, holder), lease.epoch, hold_s)
    again = lease.holder == holder and not lease.free
    return Leased(again, lease, repeated=again)


def _takeover(tx: Transaction, who: tuple[str, str], epoch: int, hold_s: float) -> Leased:
    name, holder = who
    lease = _look(tx, name)
    if lease is None:
        raise NotFound(f"{name!r} was never held", "acquire it")
    moment = {"now": tx.now(), "boot": tx.boot, "until": tx.now() + hold_s}
    if tx.value("lease_grant", name=name, holder=holder, epoch=epoch, fence=_mint(tx), **moment):
        return Leased(True, _held(tx, name))
    again = lease.holder == holder and lease.epoch == epoch + 1 and not lease.free
    return Leased(again, lease, repeated=again)


def _mint(tx: Transaction) -> int:
    return int(tx.value("fence_mint", now_us=int(tx.wall() * 1_000_000)))


def _held(tx: Transaction, name: str) -> Lease:
    lease = _look(tx, name)
    assert lease is not None, "a lease that was just granted"
    return lease


def _look(tx: Transaction, name: str) -> Lease | None:
    row = tx.one("lease_row", name=name)
    if row is None:
        return None
    return _lease(tx, (name, *row))


def _page(tx: Transaction, after: str) -> list[Lease]:
    return [_lease(tx, row) for row in tx.all("lease_rows", after=after, count=PAGE_MAX)]


def _lease(tx: Transaction, row: tuple[Any, ...]) -> Lease:
    name, holder, fence, epoch, until, boot = row
    # A hold that an earlier boot granted is over: nobody who had it is alive.
    left_s = max(0.0, until - tx.now()) if holder and boot == tx.boot else 0.0
    return Lease(name, holder, fence, epoch, left_s)
