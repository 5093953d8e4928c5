"""What the embedded ledger rests on is needed: without it a sentence of the contract goes red."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from smap_ledger_contract import P, ProjectLedgerContract
from test_smap_ledger_store import TestStoreLedger as Store

import headrace
from headrace.ports import Entry, Ledger, Posted
from headrace.testing.twins import turns_red
from headrace_smap.ledger.store_ledger import LINE, START, WELL, Names, StoreLedger
from headrace_smap.values import DONE, PostEnd, Standing

C = ProjectLedgerContract


class Wrapped:
    """The store's ledger as it is; a twin exchanges one of its answers or questions."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


class AddsUp(Wrapped):
    """Each find has a source of its own."""

    numbers = count()

    async def expect(self, account: str, more: int, source: str) -> Posted:
        return await self._ledger.expect(account, more, f"{source}, call {next(self.numbers)}")


class ForgetsSuccess(Wrapped):
    """Items that ended well are not told apart."""

    async def settle(self, account: str, entries: Sequence[Entry]) -> Posted:
        return await self._ledger.settle(account, [entry for entry in entries if not entry.item.startswith(WELL)])


class CrossesAlways(Wrapped):
    """Whoever comes to the line is told that it is the first."""

    async def settle(self, account: str, entries: Sequence[Entry]) -> Posted:
        posted = await self._ledger.settle(account, entries)
        return replace(posted, new=(LINE.item,)) if LINE in entries else posted


class NeverStarts(Wrapped):
    """PROCESSING is not remembered."""

    async def settle(self, account: str, entries: Sequence[Entry]) -> Posted:
        return await self._ledger.settle(account, [entry for entry in entries if entry != START])


class OneLife(StoreLedger):
    """A forgotten name finds the closed accounts."""

    async def _find(self, project: str) -> Any:
        names = Names.of(project, 1)
        return names, await self._ledger.tally(names.items)


class EndsOnTheLineOnly(StoreLedger):
    """DONE is what has been written, not what is so."""

    async def _look(self, names: Names) -> Standing:
        shown = await super()._look(names)
        state = await self._ledger.tally(names.state)
        early = shown.status == DONE and (state is None or state.done < 2)
        return replace(shown, status="PROCESSING") if early else shown


class LooksAtEverybodysLine(StoreLedger):
    """The line is crossed whether or not the project is sealed."""

    async def _cross(self, names: Names) -> Standing:
        items = await self._ledger.tally(names.items)
        if items is not None and items.done >= items.total:
            await self._ledger.settle(names.state, [Entry("sealed"), LINE])
        return await super()._cross(names)


class CountsBeyond(StoreLedger):
    """What is beyond the total is shown as counted."""

    async def _look(self, names: Names) -> Standing:
        shown = await super()._look(names)
        return replace(shown, done=shown.done + shown.surplus, surplus=0)


class SplitsEnds(StoreLedger):
    """Only the first part of a long call is counted."""

    async def _count(self, names: Names, ends: Sequence[PostEnd]) -> int:
        return await super()._count(names, ends[:4_000])


@dataclass(frozen=True)
class Twin:
    noticed_by: Callable[..., Awaitable[None]]
    ledger: type[StoreLedger] = StoreLedger
    port: type[Wrapped] = Wrapped


TWINS = {
    "finds that meet are added up": Twin(Store.test_finds_that_meet_are_not_added_up, port=AddsUp),
    "an error is never lifted": Twin(C.test_an_item_that_went_well_at_last_is_no_error_any_more, port=ForgetsSuccess),
    "a line is crossed twice": Twin(Store.test_of_two_who_stand_at_the_line_one_crosses, port=CrossesAlways),
    "nothing is ever in progress": Twin(C.test_the_last_item_crosses_the_line, port=NeverStarts),
    "a forgotten project lives on": Twin(C.test_a_forgotten_project_is_gone_and_may_begin_again, OneLife),
    "the end is seen late": Twin(Store.test_nobody_sees_everything_done_and_no_end, EndsOnTheLineOnly),
    "the line is crossed before the seal": Twin(C.test_nothing_finishes_before_the_seal, LooksAtEverybodysLine),
    "items beyond the total are shown": Twin(C.test_a_sealed_project_counts_no_more_than_its_total, CountsBeyond),
    "only so many items are counted": Twin(C.test_more_items_than_one_call_takes_are_all_counted, SplitsEnds),
}


@pytest.fixture
async def engines(tmp_path: Path) -> AsyncIterator[list[headrace.Engine]]:
    url = f"sqlite:///{tmp_path / 'headrace.db'}"
    async with headrace.connect(url) as one, headrace.connect(url) as other:
        yield [one, other]


@pytest.mark.parametrize("bug", TWINS)
async def test_a_support_taken_away_is_noticed(bug: str, engines: list[headrace.Engine]) -> None:
    twin = TWINS[bug]
    ledgers = [twin.ledger(cast(headrace.Engine, SimpleNamespace(ledger=twin.port(each.ledger)))) for each in engines]
    await ledgers[0].open(P)
    await turns_red(twin.noticed_by, opened=ledgers[0], handles=ledgers, seed=1, found=None)
