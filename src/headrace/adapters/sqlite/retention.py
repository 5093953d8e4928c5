"""What outbox, inbox and ledger need not remember any more, a bounded piece at a time."""

from __future__ import annotations

from headrace.adapters.sqlite.transaction import Transaction

RETAIN_EVERY_S = 60.0
# So many rows of a table go at once. If a piece is full, more may come than goes: then the next call takes another.
RETAIN_PIECE = 500
EVENTS_KEPT_S = 7 * 86_400.0
INBOX_KEPT_S = 30 * 86_400.0
ACCOUNTS_KEPT_S = 30 * 86_400.0


def retain_told(tx: Transaction) -> int:
    """Published events, consumed messages and finished accounts past their time; the number of rows."""
    now = tx.wall()
    rows = tx.run("outbox_forget", before=now - EVENTS_KEPT_S)
    rows += tx.run("inbox_forget", before=now - INBOX_KEPT_S)
    for (account,) in tx.all("ledger_old", before=now - ACCOUNTS_KEPT_S):
        for statement in ("ledger_forget_items", "ledger_forget_sources", "ledger_forget"):
            rows += tx.run(statement, account=account)
    return rows
