"""The ledger on PostgreSQL: accounts that services on a bus share. Every posting is one statement."""

from __future__ import annotations

import json
from collections.abc import Sequence

from headrace.adapters.postgres.calls import one, rows
from headrace.adapters.postgres.connections import Connection
from headrace.adapters.postgres.lanes import Lanes
from headrace.adapters.postgres.notifications import Notifications
from headrace.core.errors import Conflict
from headrace.core.ledgers import ABSENT, Account, AccountTally, Entry, Expect, Posted, Posting, Seal, Settle


class PostgresLedger:
    """`ports.ledger.Ledger` in one database."""

    def __init__(self, lanes: Lanes, notifications: Notifications) -> None:
        self._lanes, self._notifications = lanes, notifications

    async def open(self, account: Account) -> bool:
        return (await self._post(account)).accepted

    async def expect(self, account: str, count: int, source: str) -> Posted:
        return await self._post(Expect(account, count, source))

    async def seal(self, account: str, total: int | None = None) -> Posted:
        return await self._post(Seal(account, total))

    async def settle(self, account: str, entries: Sequence[Entry]) -> Posted:
        return await self._post(Settle(account, tuple(entries)))

    async def tally(self, account: str) -> AccountTally | None:
        return await self._lanes.read(lambda connection: _tally(connection, account))

    async def _post(self, posting: Posting) -> Posted:
        posted = await self._lanes.write(lambda connection: post(connection, posting))
        if posted.crossed:
            self._notifications.ring()
        return posted


def post(connection: Connection, posting: Posting) -> Posted:
    """Apply one posting; a refusal is a value and changes nothing."""
    match posting:
        case Account():
            return _open(connection, posting)
        case Expect():
            return _expect(connection, posting)
        case Seal():
            return _seal(connection, posting)
        case Settle():
            return _settle(connection, posting)


def _open(connection: Connection, account: Account) -> Posted:
    headers = json.dumps(dict(account.headers))
    opened = rows(connection, "ledger_open", (account.name, account.topic, headers))
    return Posted(True, tally=AccountTally(account.name)) if opened else Posted(False, "open")


def _expect(connection: Connection, expect: Expect) -> Posted:
    reason, before, *counts = one(connection, "ledger_expect", (expect.account, expect.count, expect.source))
    if reason == ABSENT.reason:
        return ABSENT
    if before is not None and before != expect.count:
        raise Conflict(f"source {expect.source!r} expected {before} items of {expect.account!r} before")
    return Posted(not reason, reason, tally=AccountTally(expect.account, *counts))


def _seal(connection: Connection, seal: Seal) -> Posted:
    reason, crossed, *counts = one(connection, "ledger_seal", (seal.account, seal.total))
    if reason == ABSENT.reason:
        return ABSENT
    return Posted(not reason, reason, crossed=crossed, tally=AccountTally(seal.account, *counts))


def _settle(connection: Connection, settle: Settle) -> Posted:
    first = settle.first_of_each()
    items = list(first)
    if not items:
        tally = _tally(connection, settle.account)
        return ABSENT if tally is None else Posted(True, tally=tally)
    values = (settle.account, items, list(first.values()))
    reason, fresh, surplus, crossed, *counts = one(connection, "ledger_settle", values)
    if reason == ABSENT.reason:
        return ABSENT
    new, over = (tuple(items[at - 1] for at in places) for places in (fresh, surplus))
    return Posted(True, "", new, over, crossed, AccountTally(settle.account, *counts))


def _tally(connection: Connection, account: str) -> AccountTally | None:
    found = rows(connection, "ledger_tally", (account,))
    return AccountTally(account, *found[0]) if found else None
