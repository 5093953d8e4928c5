"""What is promised of the ledger in Redis when strangers write at the worst moment: after a loss, or into our crawl."""

from __future__ import annotations

import pytest
import redis
from smap_ledger_contract import P, counts, ends, there
from smap_ledger_redis_contract import CRAWL, FAILED, HASH, ITEMS, WEEK_S, RedisLedgerContract

from headrace_smap.ledger.redis_ledger import RedisLedger
from headrace_smap.values import (
    CRAWL_OPEN,
    CRAWL_SEALED,
    CRAWLING,
    DONE,
    INITIALIZING,
    PROCESSING,
    PROCESSING_WAIT,
    Standing,
)


class WholeLedgerContract(RedisLedgerContract):
    """Brings: `ledger`, `redis_database`."""

    async def test_a_count_without_a_status_is_no_project(self, ledger: RedisLedger, foreign: redis.Redis) -> None:
        """A foreign worker counts one post after the hash was lost."""
        foreign.hincrby(HASH, "done", 1)
        answers = [
            await ledger.settle(P, ends("a")),
            await ledger.expect(P, 3),
            await ledger.seal(P, 3),
            await ledger.tally(P),
        ]
        assert answers == [None, None, None, None]
        assert (foreign.keys(), foreign.hgetall(HASH)) == ([HASH], {"done": "1"})
        assert foreign.ttl(HASH) > WEEK_S - 60

    async def test_what_others_counted_since_a_loss_is_added_to_what_they_had_counted(
        self, ledger: RedisLedger, foreign: redis.Redis
    ) -> None:
        foreign.hincrby(HASH, "done", 2)
        foreign.hincrby(HASH, "errors", 1)
        known = Standing(PROCESSING, total=12, done=7, errors=3, counted=4, failed=1)
        for _ in range(2):
            after = await ledger.restore(P, known, [*ends("a", "b", "c"), *ends("d", ok=False)])
            assert (counts(after), after.whole) == ((PROCESSING, 12, 9, 4), True)

    async def test_what_others_counted_before_a_project_opens_is_kept(
        self, opened: RedisLedger, foreign: redis.Redis
    ) -> None:
        await opened.settle(P, ends("a"))
        foreign.delete(HASH)
        foreign.hincrby(HASH, "done", 2)
        foreign.hincrby(HASH, "errors", 1)
        foreign.hset(HASH, "total", 8)
        assert await opened.open(P)
        assert counts(await opened.tally(P)) == (INITIALIZING, 8, 3, 1)

    async def test_a_total_that_was_written_since_a_loss_is_not_lowered(
        self, ledger: RedisLedger, foreign: redis.Redis
    ) -> None:
        foreign.hset(HASH, "total", 9)
        assert counts(await ledger.restore(P, Standing(CRAWLING, 5), [])) == (CRAWLING, 9, 0, 0)

    @pytest.mark.parametrize("written", [PROCESSING_WAIT, PROCESSING, DONE])
    async def test_our_own_crawl_is_over_when_we_say_so(
        self, opened: RedisLedger, foreign: redis.Redis, written: str
    ) -> None:
        """Whatever a foreign worker writes while it goes on."""
        await opened.expect(P, 2)
        foreign.hset(HASH, "status", written)
        after = there(await opened.settle(P, ends("a", "b", "c")))
        assert (counts(after), after.crossed, after.reached) == ((written, 3, 3, 0), False, False)
        assert counts(await opened.settle(P, ends("d"))) == (written, 3, 4, 0)
        assert counts(await opened.expect(P, 6)) == (CRAWLING, 7, 4, 0)
        foreign.hset(HASH, "status", written)
        sealed = there(await opened.seal(P, 6))
        assert (sealed.status == DONE, sealed.total, sealed.reached) == (False, 6, False)
        last = there(await opened.settle(P, ends("e", "f")))
        assert (counts(last), last.crossed) == ((DONE, 6, 6, 0), True)

    async def test_a_crawl_that_begins_after_a_foreign_word_is_ours_as_well(
        self, opened: RedisLedger, foreign: redis.Redis
    ) -> None:
        foreign.hset(HASH, "status", PROCESSING)
        assert counts(await opened.expect(P, 1)) == (CRAWLING, 2, 0, 0)
        foreign.hset(HASH, "status", PROCESSING)
        assert not there(await opened.settle(P, ends("a", "b"))).crossed

    async def test_what_is_restored_during_our_crawl_does_not_end_it(
        self, opened: RedisLedger, foreign: redis.Redis
    ) -> None:
        await opened.expect(P, 4)
        foreign.hset(HASH, "status", PROCESSING)
        for known in (Standing(PROCESSING, 2), Standing(DONE, 2), Standing(CRAWLING, 5, crawl=CRAWL_OPEN)):
            after = await opened.restore(P, known, ends("a", "b"))
            assert (counts(after), after.crawl) == ((PROCESSING, 5, 2, 0), CRAWL_OPEN)
        foreign.delete(CRAWL)
        after = await opened.restore(P, Standing(CRAWLING, 6, crawl=CRAWL_OPEN), [])
        assert (counts(after), after.crawl, after.sealed) == ((PROCESSING, 6, 2, 0), CRAWL_OPEN, False)

    async def test_a_seal_that_is_restored_says_that_there_is_more(
        self, opened: RedisLedger, foreign: redis.Redis
    ) -> None:
        await opened.expect(P, 4)
        foreign.hset(HASH, "status", DONE)
        known = Standing(PROCESSING_WAIT, 3, crawl=CRAWL_SEALED)
        after = await opened.restore(P, known, ends("a", "b"))
        assert (counts(after), after.crawl) == ((PROCESSING_WAIT, 3, 2, 0), CRAWL_SEALED)
        foreign.hset(HASH, "status", DONE)
        assert (await opened.restore(P, known, ends("c"))).status == DONE

    async def test_items_that_were_removed_are_not_taken_for_foreign_ones(
        self, opened: RedisLedger, foreign: redis.Redis
    ) -> None:
        await opened.settle(P, [*ends("a", "b", "c"), *ends("d", ok=False)])
        foreign.hincrby(HASH, "done", 2)
        foreign.delete(ITEMS, FAILED)
        known = Standing(CRAWLING, 9, done=6, errors=1, counted=4, failed=1, items_lost=True)
        assert counts(await opened.restore(P, known, ends("a", "b"))) == (CRAWLING, 9, 6, 1)
        await opened.settle(P, ends("e"))
        after = await opened.restore(P, known, [*ends("a", "b", "c", "e"), *ends("d", ok=False)])
        assert (counts(after), after.counted) == ((CRAWLING, 9, 7, 1), 5)
