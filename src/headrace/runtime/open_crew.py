"""The crew of a stage with `transaction="open"`: each call of its handler stands in a bracket.

One item, or one list, is one transaction. What ends well is settled by its lane, in the transaction; what does not is
rolled back to before the handler, and its outcome is settled like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.core.errors import InvalidFlow, TooLarge, TransactionEnded
from headrace.ports.store import Store
from headrace.ports.transactions import OPEN_TRANSACTIONS_MAX
from headrace.runtime.bracket import Bracket, Ending, Opener
from headrace.runtime.context import OPEN
from headrace.runtime.crew import Crew, Revoke
from headrace.runtime.flow import Stage
from headrace.runtime.judgement import NOT_DONE
from headrace.runtime.lanes import ItemLane, ListLane
from headrace.runtime.list_crew import ListCrew
from headrace.runtime.slices import Slice, Spots
from headrace.runtime.verdicts import record
from headrace.runtime.yard import Why, Yard


def check_transactions(store: Store, stages: Sequence[Stage]) -> None:
    """Refuse open transactions where there are none, or more of them than a store gives."""
    opened = [stage for stage in stages if stage.transaction == OPEN]
    if opened and not store.features.open_transactions:
        raise InvalidFlow(
            f'stage {opened[0].name!r}: transaction="open" needs a PostgreSQL store, and this one is not',
            'declare it with transaction="recorded" and record statements: context.sql(…)',
        )
    lanes = sum(stage.concurrency for stage in opened)
    if lanes > OPEN_TRANSACTIONS_MAX:
        raise TooLarge(
            f"stages with open transactions have a concurrency of {lanes} together, over {OPEN_TRANSACTIONS_MAX=}",
            "give them a smaller concurrency=…, and run more worker processes",
        )


class OpenCrew(Crew):
    """One stage of one worker, whose handlers run in open transactions."""

    def __init__(self, stage: Stage, stages: Mapping[str, Stage], yard: Yard, opener: Opener) -> None:
        super().__init__(stage, stages, yard, opener.settler)
        self._opener = opener

    @property
    def revokers(self) -> list[Revoke]:
        return [*super().revokers, self._opener.transactions.revoke]

    def _item_lane(self) -> ItemLane:
        return OpenItemLane(self, Bracket(self._opener, self.stage))


class OpenListCrew(OpenCrew, ListCrew):
    """The same with a handler of a list."""

    def _list_lane(self) -> ListLane:
        return OpenListLane(self, Bracket(self._opener, self.stage))


class OpenItemLane(ItemLane):
    """Runs a handler of one item, each in a transaction of its own."""

    __slots__ = ("_bracket",)

    def __init__(self, crew: Crew, bracket: Bracket) -> None:
        self._bracket = bracket
        super().__init__(crew)

    def _renew_place(self) -> None:
        super()._renew_place()
        self.call = self._bracket.around(self.place, self.call)

    def abandon(self) -> None:
        super().abandon()
        self._bracket.cut()

    async def _ended(self, work: Slice, index: int, answer: Any, raised: bool) -> bool:
        if self.abandoned or self.why is not None or (raised and not isinstance(answer, Exception)):
            self._bracket.cut()
        elif raised or isinstance(answer, NOT_DONE):
            self.settling = True
            ended = await self._bracket.rollback(failed=raised)
            self.settling = False
            if ended is not None:
                answer, raised = ended, True
        return await super()._ended(work, index, answer, raised)

    async def _send(self, work: Slice, index: int) -> bool:
        try:
            flips = await self.out.staged()
        except BaseException as error:
            return await self._ended(work, index, error, raised=True)
        self.settling = True
        ending = await self._bracket.settle(self.out, {work: 1 << index}, flips)
        self.settling = False
        if isinstance(ending, Exception):
            return await self._ended(work, index, ending, raised=True)
        if ending is Ending.AGAIN:
            work.forgo(index)
        return True


class OpenListLane(ListLane):
    """Runs a handler of a list, each list in a transaction of its own."""

    __slots__ = ("_bracket",)

    def __init__(self, crew: ListCrew, bracket: Bracket) -> None:
        self._bracket = bracket
        super().__init__(crew)

    def _renew_place(self) -> None:
        super()._renew_place()
        self.call = self._bracket.around(self.place, self.call)

    def abandon(self) -> None:
        super().abandon()
        self._bracket.cut()

    def _foreign(self, error: BaseException) -> bool:
        if not isinstance(error, Exception):
            self._bracket.cut()
        return super()._foreign(error)

    async def _note(self, spots: Spots, answers: Any, raised: BaseException | None, why: Why | None) -> None:
        if why is not None:
            self._bracket.cut()
        else:
            self.settling = True
            raised = await self._end(spots, answers) if raised is None else await self._rolled_back(raised)
            self.settling = False
        if why is not None or (raised is not None and not isinstance(raised, TransactionEnded)):
            await super()._note(spots, answers, raised, why)
        elif raised is not None:
            self._give_up(spots, raised)

    async def _rolled_back(self, raised: BaseException) -> BaseException:
        return await self._bracket.rollback(failed=True) or raised

    async def _end(self, spots: Spots, answers: Any) -> Exception | None:
        """The call went through. If all are done, so is the transaction; an error is the whole list's."""
        if any(isinstance(answer, NOT_DONE) for answer in answers or ()):
            return await self._sort_out(spots, answers)
        shares: dict[Slice, int] = {}
        for work, index in spots:
            shares[work] = shares.get(work, 0) | 1 << index
        ending = await self._bracket.settle(self.out, shares)
        if isinstance(ending, Exception):
            return ending
        if ending is Ending.DONE:
            self._lists.free(spots)
        elif any(work.lost for work in shares):
            self._lists.rerun(spots)
        else:
            self._lists.forgo(spots)
        return None

    async def _sort_out(self, spots: Spots, answers: Any) -> Exception | None:
        """Nobody knows which of the changes belong to the items that are not done. So all of them are rolled back, and
        the others run again without those."""
        ended = await self._bracket.rollback()
        self.out.discard()
        if ended is not None:
            return ended
        not_done = self._lists.judge(spots, answers)
        self._lists.free([spot for spot in spots if spot in not_done])
        self._lists.rerun([spot for spot in spots if spot not in not_done])
        return None

    def _give_up(self, spots: Spots, error: BaseException) -> None:
        """Halves of the list would do the same again."""
        self.out.discard()
        for work, index in spots:
            if not work.lost:
                record(work, index, error, self.crew.yard)
        self._lists.free(spots)
