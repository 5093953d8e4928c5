"""The ledger: one count that services on a bus share, with one finish line.

An account is sealed when nobody will expect more; it finishes once, when as many items have ended as belong to it.
What is announced then is an outbox event, committed with the finish. Every call may be repeated as it is after a lost
answer: it changes nothing, and what there was to announce is in the outbox since the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.core.ledgers import Account, AccountTally, Entry, Posted


class Ledger(Protocol):
    async def open(self, account: Account) -> bool:
        """Open an account with nothing expected. False: it is there already, and stays as it is."""

    async def expect(self, account: str, count: int, source: str) -> Posted:
        """Add to the total. The same source again adds nothing. Refused: `absent`, `sealed`."""

    async def seal(self, account: str, total: int | None = None) -> Posted:
        """Fix the total: at `total`, or at what was expected. If everything has ended by then, this crosses
        the finish line; an empty account finishes at its seal. Refused: `absent`, `short` (more has ended), `sealed`
        (at another total)."""

    async def settle(self, account: str, entries: Sequence[Entry]) -> Posted:
        """Items ended; each counts once, by its first entry. Refused: `absent`, and no account is made.

        A sealed account takes no more items than its total; the rest of the call is `surplus` and is not counted.
        """

    async def tally(self, account: str) -> AccountTally | None:
        """The counts in one snapshot; None: there is no such account."""
