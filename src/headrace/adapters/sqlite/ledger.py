"""The ledger: accounts that services on a bus share.

A count follows from the set of items that have ended, never from a repeated call: an item counts if its row is new. The
finish line is one conditional update, and its announcement is an outbox event of the same transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from headrace.adapters.sqlite.outbox import add_event
from headrace.adapters.sqlite.store_transactions import Transactions
from headrace.adapters.sqlite.transaction import Transaction
from headrace.core.errors import Conflict
from headrace.core.ledgers import (
    ABSENT,
    Account,
    AccountTally,
    Entry,
    Expect,
    Posted,
    Posting,
    Seal,
    Settle,
    announcement,
)


class SqliteLedger:
    """`ports.ledger.Ledger` on one file."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def open(self, account: Account) -> bool:
        return (await self._post(account)).accepted

    async def expect(self, account: str, count: int, source: str) -> Posted:
        return await self._post(Expect(account, count, source))

    async def seal(self, account: str, total: int | None = None) -> Posted:
        return await self._post(Seal(account, total))

    async def settle(self, account: str, entries: Sequence[Entry]) -> Posted:
        return await self._post(Settle(account, tuple(entries)))

    async def tally(self, account: str) -> AccountTally | None:
        return await self._transactions.read(lambda tx: _tally(tx, account))

    async def _post(self, posting: Posting) -> Posted:
        return await self._transactions.write(lambda tx: post(tx, posting))


def post(tx: Transaction, posting: Posting) -> Posted:
    """Apply one posting; a refusal is a value and changes nothing."""
    match posting:
        case Account():
            return _open(tx, posting)
        case Expect():
            return _expect(tx, posting)
        case Seal():
            return _seal(tx, posting)
        case Settle():
            return _settle(tx, posting)


def _open(tx: Transaction, account: Account) -> Posted:
    headers = json.dumps(dict(account.headers))
    opened = tx.value("ledger_open", account=account.name, topic=account.topic, headers=headers, now=tx.wall())
    tally = _tally(tx, account.name)
    return Posted(True, tally=tally) if opened else Posted(False, "open", tally=tally)


def _expect(tx: Transaction, expect: Expect) -> Posted:
    tally = _tally(tx, expect.account)
    if tally is None:
        return ABSENT
    before = tx.value("ledger_source_count", account=expect.account, source=expect.source)
    if before is not None:
        if before != expect.count:
            raise Conflict(f"source {expect.source!r} expected {before} items of {expect.account!r} before")
        return Posted(True, tally=tally)
    if tally.sealed:
        return Posted(False, "sealed", tally=tally)
    tx.run("ledger_source", account=expect.account, source=expect.source, count=expect.count)
    tx.run("ledger_expect", account=expect.account, count=expect.count)
    return Posted(True, tally=_tally(tx, expect.account))


def _seal(tx: Transaction, seal: Seal) -> Posted:
    tally = _tally(tx, seal.account)
    if tally is None:
        return ABSENT
    total = tally.total if seal.total is None else seal.total
    if tally.sealed:
        same = total == tally.total
        return Posted(same, "" if same else "sealed", tally=tally)
    if tally.ended > total:
        return Posted(False, "short", tally=tally)
    tx.run("ledger_seal", account=seal.account, total=total)
    crossed = _finish(tx, seal.account)
    return Posted(True, crossed=crossed, tally=_tally(tx, seal.account))


def _settle(tx: Transaction, settle: Settle) -> Posted:
    tally = _tally(tx, settle.account)
    if tally is None:
        return ABSENT
    first = settle.first_of_each()
    known = {row[0] for row in tx.all("ledger_known", account=settle.account, items=json.dumps(list(first)))}
    fresh = [item for item in first if item not in known]
    room = max(0, tally.total - tally.ended) if tally.sealed else len(fresh)
    new, surplus = fresh[:room], fresh[room:]
    crossed = False
    if new:
        tx.run("ledger_items", account=settle.account, entries=json.dumps([[item, int(first[item])] for item in new]))
        done = sum(first[item] for item in new)
        tx.run("ledger_count", account=settle.account, done=done, errors=len(new) - done)
        crossed = _finish(tx, settle.account)
    return Posted(True, "", tuple(new), tuple(surplus), crossed, _tally(tx, settle.account))


def _finish(tx: Transaction, account: str) -> bool:
    """Cross the finish line if this is the moment, and say so in the outbox."""
    if not tx.value("ledger_finish", account=account, now=tx.wall()):
        return False
    row = tx.one("ledger_row", account=account)
    tally = _tally(tx, account)
    assert row is not None
    assert tally is not None
    add_event(tx, announcement(Account(account, row[5], json.loads(row[6])), tally))
    return True


def _tally(tx: Transaction, account: str) -> AccountTally | None:
    row = tx.one("ledger_row", account=account)
    if row is None:
        return None
    total, done, errors, sealed, finished = row[:5]
    return AccountTally(account, total, done, errors, bool(sealed), bool(finished))
