"""The inbox: a message enters the account in the transaction that applies its consequence."""

from __future__ import annotations

from headrace.adapters.sqlite import ledger, operations, submissions
from headrace.adapters.sqlite.outbox import add_event
from headrace.adapters.sqlite.store_transactions import Transactions
from headrace.adapters.sqlite.transaction import Transaction
from headrace.core.consequences import Consequence, Consumed
from headrace.core.events import check_event
from headrace.core.ledgers import insist


class SqliteInbox:
    """`ports.outbox.Inbox` on one file."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def consume(self, subscription: str, event_id: str, consequence: Consequence) -> Consumed:
        for event in consequence.events:
            check_event(event)
        return await self._transactions.write(lambda tx: consume(tx, subscription, event_id, consequence))


def consume(tx: Transaction, subscription: str, event_id: str, consequence: Consequence) -> Consumed:
    if not tx.value("inbox_insert", subscription=subscription, event_id=event_id, now=tx.wall()):
        return Consumed(False)
    submitted = tuple(submissions.submit(tx, submission) for submission in consequence.submissions)
    closed = tuple(operations.close_external(tx, job, stage, event_id) for job, stage in consequence.closes)
    posted = tuple(insist(posting, ledger.post(tx, posting)) for posting in consequence.postings)
    for event in consequence.events:
        add_event(tx, event)
    return Consumed(True, submitted, closed, posted)
