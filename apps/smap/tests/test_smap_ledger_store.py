"""The embedded ledger keeps the contract, on a file of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from smap_ledger_contract import P, ProjectLedgerContract, counts, ends, there

import headrace
from headrace.ports import Entry, Ledger, Posted
from headrace_smap.ledger.store_ledger import LINE, StoreLedger
from headrace_smap.values import CRAWLING, DONE, INITIALIZING, Standing


class Together:
    """The store's ledger, where nobody steps over a line before another stands at it as well."""

    def __init__(self, ledger: Ledger, meeting: asyncio.Barrier) -> None:
        self._ledger, self._meeting = ledger, meeting

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def settle(self, account: str, entries: Sequence[Entry]) -> Posted:
        if LINE in entries:
            await self._meeting.wait()
        return await self._ledger.settle(account, entries)


class TestStoreLedger(ProjectLedgerContract):
    @pytest.fixture
    async def ledger(self, tmp_path: Path) -> AsyncIterator[StoreLedger]:
        async with headrace.connect(f"sqlite:///{tmp_path / 'headrace.db'}") as engine:
            yield StoreLedger(engine)

    @pytest.fixture
    async def handles(self, ledger: StoreLedger, tmp_path: Path) -> AsyncIterator[Sequence[StoreLedger]]:
        async with headrace.connect(f"sqlite:///{tmp_path / 'headrace.db'}") as engine:
            yield [ledger, StoreLedger(engine)]

    async def test_it_outlives_its_process(self, opened: StoreLedger, handles: Sequence[StoreLedger]) -> None:
        await opened.settle(P, ends("a"))
        assert counts(await handles[1].seal(P, 1)) == (DONE, 1, 1, 0)
        assert not there(await opened.settle(P, [])).crossed

    async def test_nobody_else_makes_accounts_in_it(self, opened: StoreLedger) -> None:
        assert await opened.projects() == []
        assert await opened.era() == ""

    async def test_nobody_sees_everything_done_and_no_end(
        self, opened: StoreLedger, handles: Sequence[StoreLedger]
    ) -> None:
        items = [f"i{number}" for number in range(40)]
        await opened.seal(P, len(items))
        seen: list[Standing] = []

        async def look(settled: asyncio.Task[object]) -> None:
            while not settled.done():
                seen.append(there(await handles[1].tally(P)))

        for item in items:
            settled: asyncio.Task[object] = asyncio.create_task(opened.settle(P, ends(item)))
            await asyncio.gather(settled, look(settled))
        assert {standing.status == DONE for standing in seen if standing.done == len(items)} <= {True}
        assert {standing.done for standing in seen if standing.status == DONE} <= {len(items)}
        assert counts(await handles[1].tally(P)) == (DONE, len(items), len(items), 0)

    async def test_of_two_who_stand_at_the_line_one_crosses(
        self, opened: StoreLedger, handles: Sequence[StoreLedger]
    ) -> None:
        await opened.seal(P, 1)
        meeting = asyncio.Barrier(2)
        both = [
            StoreLedger(cast(headrace.Engine, SimpleNamespace(ledger=Together(each._ledger, meeting))))
            for each in handles
        ]
        async with asyncio.timeout(60):
            standings = await asyncio.gather(*(each.settle(P, ends("a")) for each in both))
        assert sorted(there(each).crossed for each in standings) == [False, True]

    async def test_finds_that_meet_are_not_added_up(self, opened: StoreLedger, handles: Sequence[StoreLedger]) -> None:
        await asyncio.gather(*(handles[found % 2].expect(P, found) for found in range(1, 20)))
        assert counts(await opened.tally(P)) == (CRAWLING, 20, 0, 0)

    async def test_a_forgotten_project_takes_nothing_that_comes_late(
        self, opened: StoreLedger, handles: Sequence[StoreLedger]
    ) -> None:
        await asyncio.gather(opened.forget(P), *(handles[1].settle(P, ends(f"i{number}")) for number in range(8)))
        assert await opened.tally(P) is None
        assert await opened.open(P)
        assert counts(await opened.tally(P)) == (INITIALIZING, 0, 0, 0)


SENTENCES = (
    TestStoreLedger.test_a_page_told_again_or_late_changes_nothing,
    TestStoreLedger.test_a_sealed_total_may_rise_and_never_falls,
    TestStoreLedger.test_an_item_that_went_well_at_last_is_no_error_any_more,
    TestStoreLedger.test_the_last_item_crosses_the_line,
    TestStoreLedger.test_a_sealed_project_counts_no_more_than_its_total,
    TestStoreLedger.test_restoring_lifts_status_and_total,
    TestStoreLedger.test_of_two_who_stand_at_the_line_one_crosses,
    TestStoreLedger.test_finds_that_meet_are_not_added_up,
)


async def test_it_is_the_same_on_postgresql(postgres_database: str) -> None:
    """With a database server and no Redis the engine's store is there. Each sentence begins with a forgotten name."""
    async with headrace.connect(postgres_database) as one, headrace.connect(postgres_database) as other:
        ledgers = {"opened": StoreLedger(one), "handles": [StoreLedger(one), StoreLedger(other)]}
        for sentence in SENTENCES:
            assert await StoreLedger(one).open(P)
            taken = {name: each for name, each in ledgers.items() if name in inspect.signature(sentence).parameters}
            await sentence(TestStoreLedger(), **taken)
            await StoreLedger(one).forget(P)
