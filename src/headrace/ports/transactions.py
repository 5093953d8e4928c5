"""Open transactions: a handler works inside a transaction of the store's own database, and its settlement is the last
thing in it. What the handler changed and the end of its items are committed together, or nothing is.

No claim is locked while the handler runs, so that it can be renewed meanwhile. The fence and the step are checked by
the settlement, in that same transaction, at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.core.claims import Settled, Settlement
from headrace.core.jobs import Submission, Submitted

OPEN_TRANSACTIONS_MAX = 64
NOT_APPLIED = "not_applied"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a handler needs: a connection to await (`awaits`) or one for a thread. A transaction that is left alone for
    longer than `timeout_s` is ended by the server, whatever became of the worker. `fences` are of the claims whose
    items it is for."""

    awaits: bool
    timeout_s: float
    fences: tuple[int, ...] = ()


class OpenTransaction(Protocol):
    """One transaction, for one call of a handler. It ends once: settled, rolled back or cut."""

    @property
    def connection(self) -> Any:
        """What the handler works with. It is refused to anybody once the handler's part is over, and it does not
        commit, roll back or close."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Settle in this transaction and commit it. Unless every answer is accepted nothing of it remains.

        `Unknown`: the answer to COMMIT was lost, and only `OpenTransactions.resolve` can tell. Every other error:
        nothing was settled. It is one that heals by itself if the store was in trouble, and else what the handler did
        cannot be committed. `TransactionEnded`: the handler has ended the transaction by itself, so what it did may
        stand.
        """

    async def rollback(self) -> None:
        """Nothing of it remains. `TransactionEnded` if the handler has ended it before; `Unreachable` if the connection
        broke under the handler, so that whatever it raised may have come from that. Idempotent."""

    def cut(self) -> None:
        """Break the connection, though the handler may still use it: the server rolls back. Idempotent."""


class OpenTransactions(Protocol):
    """A store whose database a handler can work in, and that works in a caller's transaction."""

    async def begin(self, terms: Terms) -> OpenTransaction:
        """Open a transaction. At most OPEN_TRANSACTIONS_MAX are open at a time; one more waits for its turn."""

    async def resolve(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """What became of the settlements of a transaction whose COMMIT was not answered. It applies nothing.

        It takes the locks of their claims, so it waits for a commit that is still under way. All accepted: the
        transaction was committed. `not_applied`: it was not and never will be, and the claim is still held. Else the
        claim is lost.
        """

    async def revoke(self, fences: Sequence[int]) -> None:
        """End what is open under these fences. Their claims are lost, so it could never be settled; but a holder that
        is only frozen keeps its locks, and who runs its items next would wait for them. Idempotent."""

    async def submit_in(self, connection: Any, submission: Submission, notify: bool) -> Submitted:
        """Open a job inside the transaction of a connection that the caller opened, and leave the commit to the caller:
        the job exists if and only if that is done. A key counts as in `Store.submit`; a submission under the same key
        that is not committed yet is waited for. No worker is woken before its next poll unless `notify`, which makes
        commits of the database wait for each other.

        After a refusal that the server was not asked about the caller's transaction goes on. `TryAgain`: the whole
        transaction again is right.
        """
