"""The bracket around one call of a handler: an open transaction before it, its settlement at the end.

A claim has one settlement under way at a time, so the bracket waits for its turn, and while its settlement travels the
settler leaves the claim alone.

**When the answer to COMMIT is lost**, the transaction was committed, or aborted, or its COMMIT is still under way. To
send the same settlement again, as is right everywhere else, would be wrong here: if the transaction was aborted, the
repeat would be accepted and end the items without their effects. A plain read would be wrong too: it may be answered
before a commit that is under way. So the store is asked under the lock of the claim, and nothing is applied by asking.
That decides, because the settlement had been answered before COMMIT was sent: the transaction held the claim's row
from then until its end, so whoever gets the lock after it finds it ended, one way or the other, for ever. If the step
is in the account, so are the effects, and the items are done. If it is not, neither are the effects, and the items go
back and run again; no attempt is spent. If the connection broke before COMMIT was sent, the server can only have
rolled back, and nobody needs to be asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from headrace.core.bits import indexes
from headrace.core.claims import Settled, Settlement
from headrace.core.errors import Conflict, HeadraceError, TransactionEnded, Unknown, Unreachable
from headrace.ports.transactions import NOT_APPLIED, OpenTransaction, OpenTransactions, Terms
from headrace.runtime.context import Out
from headrace.runtime.flow import Stage
from headrace.runtime.settler import Outage, Settler
from headrace.runtime.slices import Place, Slice
from headrace.runtime.verdicts import RecordedFailure
from headrace.runtime.yard import Yard

Shares = Mapping[Slice, int]
"""The items of one call, by the slice they belong to: bit i is the item at index i."""


class Ending(Enum):
    """What became of a call that went through: its items are done, or nobody is to blame that they are not."""

    DONE = auto()
    AGAIN = auto()


class Opener:
    """What the brackets of one worker share."""

    def __init__(self, transactions: OpenTransactions, settler: Settler, yard: Yard) -> None:
        self.transactions, self.settler, self.yard = transactions, settler, yard


class Bracket:
    """Of one lane: at most one transaction is open in it."""

    def __init__(self, opener: Opener, stage: Stage) -> None:
        self._transactions, self._settler, self._yard = opener.transactions, opener.settler, opener.yard
        self._stage = stage
        self._open: OpenTransaction | None = None

    def around(self, place: Place, call: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """A handler's call with a transaction opened before it."""

        async def within(item: Any) -> Any:
            # Whatever the handler does, its item is not simply done: there is a transaction to end.
            place.loaded = True
            self._open = await self._begin(place)
            place.connection = self._open.connection
            return await call(item)

        return within

    async def _begin(self, place: Place) -> OpenTransaction:
        outage = Outage(self._yard)
        spots = place.batch.spots if place.batch is not None else [(place.slice, place.index)]
        fences = {work.fence for work, _ in spots if work is not None}
        terms = Terms(self._stage.shape.awaits_within, self._stage.timeout_s, tuple(sorted(fences)))
        while True:
            try:
                return await self._transactions.begin(terms)
            except HeadraceError as error:
                if not error.heals:
                    raise
                await outage.wait("store.failing", error)

    def cut(self) -> None:
        """The handler was interrupted, and may still be at work: its connection breaks."""
        transaction, self._open = self._open, None
        if transaction is not None:
            transaction.cut()

    async def rollback(self, failed: bool = False) -> HeadraceError | None:
        """The attempt did not end done: nothing of it remains. An error if the handler has seen to it that it does, or
        if it `failed` and its connection was broken: then the store has failed, and not the item."""
        transaction, self._open = self._open, None
        if transaction is not None:
            try:
                await transaction.rollback()
            except TransactionEnded as error:
                return error
            except Unreachable as error:
                return error if failed else None
        return None

    async def settle(self, out: Out, shares: Shares, flips: Iterable[int] = ()) -> Ending | Exception:
        """Settle these items as done in the transaction, and commit it. An error: the attempt has failed."""
        works = list(shares)
        try:
            await self._yard.until(lambda: any(w.lost for w in works) or all(w.sent is None for w in works))
        except BaseException:
            self.cut()
            raise
        if self._lost(works):
            out.discard()
            return await self.rollback() or Ending.AGAIN
        transaction, self._open = self._open, None
        assert transaction is not None, "a handler that was called has a transaction"
        out.hand_over(flips)
        settlements = [work.travel(done) for work, done in shares.items()]
        try:
            answers = await self._answers(transaction, works, settlements)
        except Exception as error:
            self._take_back(works, settlements)
            if not (isinstance(error, HeadraceError) and error.heals):
                return error
            self._yard.observer.event("store.failing", error=type(error).__name__, detail=str(error))
            return Ending.AGAIN
        if all(answer.accepted for answer in answers):
            for work in works:
                self._settler.applied(work)
            return Ending.DONE
        self._take_back(works, settlements)
        return self._refused(works, answers)

    def _lost(self, works: Sequence[Slice]) -> list[Slice]:
        return [work for work in works if not self._settler.ours(work)]

    async def _answers(
        self, transaction: OpenTransaction, works: Sequence[Slice], settlements: Sequence[Settlement]
    ) -> list[Settled]:
        try:
            return await transaction.settle(settlements)
        except Unknown as error:
            return await self._resolve(works, settlements, error)

    async def _resolve(self, works: Sequence[Slice], settlements: Sequence[Settlement], lost: Unknown) -> list[Settled]:
        """Ask until the store answers, or until nothing of it can be ours."""
        outage = Outage(self._yard)
        await outage.wait("store.failing", lost)
        while len(self._lost(works)) < len(works):
            try:
                return await self._transactions.resolve(settlements)
            except HeadraceError as error:
                if not error.heals:
                    raise
                await outage.wait("store.failing", error)
        return [Settled(settlement.fence, False, "lost") for settlement in settlements]

    def _take_back(self, works: Sequence[Slice], settlements: Sequence[Settlement]) -> None:
        """Nothing was applied: the step is free again, and what the items sent is forgotten."""
        for work, settlement in zip(works, settlements, strict=True):
            work.refused(frozenset(indexes(settlement.done)), Conflict("nothing was applied"))
            if work.over or work.has_news():
                self._settler.soon(work)
        self._yard.tell()

    def _refused(self, works: Sequence[Slice], answers: Sequence[Settled]) -> Ending | Exception:
        """Claims that are lost are dropped. A stage that takes nothing is the fault of those who sent to it."""
        failure: Exception | None = None
        for work, answer in zip(works, answers, strict=True):
            reason, _, stage = answer.reason.partition(":")
            if stage:
                failure = RecordedFailure(f"the stage {stage!r} takes no items in this job: {reason}")
            elif not answer.accepted and reason != NOT_APPLIED:
                self._settler.drop(work, reason)
        return failure or Ending.AGAIN
