"""What is promised beside strangers who count, write and remove at the worst moment. Brings: `account`."""

from __future__ import annotations

import pytest
from smap_reconciling_contract import Account, P

from headrace.ports import Event
from headrace_smap.envelope import JOB_COMPLETED, completed_id
from headrace_smap.values import CRAWLING, DONE, PROCESSING, PROCESSING_WAIT


class StrangersContract:
    @pytest.mark.parametrize("whose", ["ours", "theirs"])
    async def test_what_is_counted_between_a_flush_and_the_next_look_is_added(
        self, account: Account, whose: str
    ) -> None:
        """A foreign worker's increment makes a hash of one field, which is followed by nobody."""
        if whose == "ours":
            await account.accountant.open(P)
            await account.accountant.expect(P, 9)
        else:
            await account.foreign.init_project_state()
            await account.foreign.set_project_total(10)
        await account.settle("a")
        for _ in range(4):
            await account.foreign.mark_item_done(is_error=True)
        await account.look_after()
        await account.foreign.hash.flush()
        await account.foreign.mark_item_done()
        await account.look_after(3)
        assert await account.shown() == (CRAWLING, 10, 6, 4)

    async def test_our_settlement_after_a_flush_counts_beside_those_of_others(self, account: Account) -> None:
        await account.foreign.init_project_state()
        await account.foreign.set_project_total(3)
        await account.foreign.mark_item_done()
        await account.look_after()
        await account.foreign.hash.flush()
        await account.foreign.mark_item_done()
        await account.settle("a")
        assert await account.shown() == (CRAWLING, 3, 3, 0)

    async def test_a_total_that_is_written_after_a_flush_takes_nothing_away(self, account: Account) -> None:
        await account.foreign.init_project_state()
        await account.foreign.set_project_total(5)
        await account.foreign.mark_item_done(is_error=True)
        await account.look_after()
        await account.foreign.hash.flush()
        await account.foreign.set_project_total(7)
        await account.settle("a")
        await account.look_after(3)
        assert await account.shown() == (CRAWLING, 7, 2, 1)

    async def test_opening_a_project_again_after_a_flush_brings_it_back(self, account: Account) -> None:
        await account.accountant.open(P)
        await account.accountant.expect(P, 4)
        await account.foreign.mark_item_done()
        await account.look_after()
        await account.foreign.hash.flush()
        await account.accountant.open(P)
        assert await account.shown() == (CRAWLING, 5, 1, 0)

    @pytest.mark.parametrize("written", [PROCESSING_WAIT, PROCESSING, DONE])
    async def test_nobody_else_ends_our_crawl(self, account: Account, written: str) -> None:
        await account.accountant.open(P)
        await account.accountant.expect(P, 2)
        await account.foreign.hash.hset(P, status=written)
        await account.settle("a", "b")
        await account.accountant.expect(P, 4)
        await account.foreign.hash.hset(P, status=written)
        await account.settle("c", "d")
        await account.foreign.hash.hincrby(P, "done", 3)
        await account.look_after(6)
        truth = await account.truth()
        assert (account.told(), truth.finished_at, truth.status) == ([], None, CRAWLING)
        await account.foreign.hash.flush()
        await account.look_after()
        assert await account.shown() == (CRAWLING, 5, 7, 0)
        await account.accountant.seal(P, 9)
        assert await account.shown() == (PROCESSING_WAIT, 9, 7, 0)
        await account.settle("e", "f")
        await account.look_after(6)
        assert (await account.shown(), account.told()) == ((DONE, 9, 9, 0), [completed_id(P)])

    async def test_an_end_that_was_announced_before_our_seal_is_announced_again(self, account: Account) -> None:
        """A stranger counted a post twice, believed that all was done, and said so."""
        await account.accountant.open(P)
        await account.accountant.expect(P, 2)
        await account.foreign.hash.hincrby(P, "done", 3)
        await account.foreign.hash.hset(P, status=DONE)
        await account.bus.publish([Event("evt_early", JOB_COMPLETED, b'{"project_id": "proj_abc"}')])
        await account.look_after(4)
        await account.accountant.expect(P, 4)
        await account.settle("d")
        await account.accountant.seal(P, 4)
        await account.look_after(6)
        assert (await account.shown(), account.told()) == ((DONE, 4, 4, 0), ["evt_early", completed_id(P)])

    async def test_an_end_that_is_announced_once_too_early_and_once_in_time_is_enough(self, account: Account) -> None:
        await account.accountant.open(P)
        await account.accountant.expect(P, 1)
        told = Event("evt_foreign", JOB_COMPLETED, b'{"project_id": "proj_abc"}')
        await account.bus.publish([told])
        await account.look_after()
        await account.foreign.mark_item_done()
        await account.accountant.seal(P, 1)
        account.clock.forward(1)
        await account.bus.publish([told])
        await account.look_after(6)
        assert (await account.shown(), account.told()) == ((DONE, 1, 1, 0), ["evt_foreign", "evt_foreign"])

    @pytest.mark.parametrize("written", [PROCESSING, DONE])
    async def test_a_crawl_whose_mark_was_lost_does_not_end(self, account: Account, written: str) -> None:
        """The ledger falls back to a moment before our crawl, and a stranger writes on."""
        await account.accountant.open(P)
        await account.accountant.expect(P, 1)
        await account.foreign.hash.flush()
        await account.foreign.hash.hset(P, status=PROCESSING, total=1, done=1, errors=0)
        await account.settle("a")
        await account.foreign.hash.hset(P, status=written)
        await account.look_after(6)
        assert (account.told(), (await account.truth()).finished_at) == ([], None)
        await account.accountant.seal(P, 3)
        await account.settle("b", "c")
        await account.look_after(6)
        assert ((await account.shown())[:2], account.told()) == ((DONE, 3), [completed_id(P)])

    @pytest.mark.parametrize("written", [PROCESSING, DONE])
    async def test_a_seal_that_the_ledger_never_heard_of_ends_the_crawl(self, account: Account, written: str) -> None:
        """The collector dies between the truth and the ledger."""
        await account.accountant.open(P)
        await account.accountant.expect(P, 3)
        await account.settle("a", "b")
        await account.foreign.hash.hset(P, status=written)
        await account.database.rows("truth_seal", project=P, total=3, shown=3, now=account.clock())
        await account.look_after(2)
        assert ((await account.shown())[1:], account.told()) == ((3, 2, 0), [])
        await account.settle("c")
        assert (await account.shown(), account.told()) == ((DONE, 3, 3, 0), [completed_id(P)])

    async def test_an_end_before_as_many_ended_as_we_sealed_is_none(self, account: Account) -> None:
        await account.accountant.open(P)
        await account.accountant.seal(P, 2)
        await account.foreign.hash.hset(P, total=1)
        await account.settle("a")
        await account.look_after(4)
        assert ((await account.shown())[1:], account.told()) == ((2, 1, 0), [])
        await account.settle("b")
        assert (await account.shown(), account.told()) == ((DONE, 2, 2, 0), [completed_id(P)])

    async def test_items_that_somebody_removed_are_not_counted_twice(self, account: Account) -> None:
        await account.accountant.open(P)
        await account.settle("a", "b")
        await account.settle("c", ok=False)
        await account.foreign.mark_item_done()
        await account.accountant.seal(P, 9)
        await account.look_after()
        await account.foreign.hash.remove_items(P)
        await account.settle("d")
        await account.look_after(4)
        assert await account.shown() == (PROCESSING, 9, 5, 1)
        truth = await account.truth()
        assert (truth.settled, truth.others) == (4, 1)

    async def test_a_sealed_project_that_stands_still_raises_the_alarm_after_ten_minutes(
        self, account: Account
    ) -> None:
        await account.accountant.open(P)
        await account.accountant.seal(P, 2)
        await account.settle("a")
        await account.look_after(9, every_s=60)
        assert account.metric("sealed_but_unfinished") == 0
        await account.look_after(3, every_s=60)
        assert (account.metric("sealed_but_unfinished"), account.metric("complete_but_not_sealed")) == (1, 0)
        await account.settle("b")
        await account.look_after()
        assert account.metric("sealed_but_unfinished") == 0

    async def test_a_cancelled_project_is_neither_unfinished_nor_stuck(self, account: Account) -> None:
        await account.accountant.open(P)
        await account.accountant.seal(P, 2)
        await account.settle("a")
        await account.look_after()
        assert (account.metric("unfinished"), account.metric("cancelled")) == (1, 0)
        await account.accountant.cancel(P)
        await account.look_after(12, every_s=60)
        assert (account.metric("unfinished"), account.metric("cancelled")) == (0, 1)
        assert account.metric("sealed_but_unfinished") == 0

    async def test_a_word_of_somebody_else_gives_way_to_our_seal(self, account: Account) -> None:
        await account.accountant.open(P)
        await account.foreign.hash.hset(P, status="PAUSED")
        await account.settle("a")
        await account.look_after(13, every_s=60)
        assert ((await account.shown())[0], account.metric("complete_but_not_sealed")) == ("PAUSED", 1)
        await account.accountant.seal(P, 1)
        await account.look_after(2)
        assert (await account.shown(), account.told()) == ((DONE, 1, 1, 0), [completed_id(P)])

    async def test_an_end_in_the_future_of_a_wrong_clock_is_told_now(self, account: Account) -> None:
        await account.accountant.open(P)
        await account.accountant.seal(P, 0)
        account.bus.published.clear()
        account.clock.forward(-3_600)
        account.database.connection.execute("UPDATE smap_project SET announced_at = NULL")
        await account.look_after()
        assert account.told() == [completed_id(P)]
