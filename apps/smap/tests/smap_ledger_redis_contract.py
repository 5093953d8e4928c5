"""What is promised of the ledger in Redis besides: the hash stays the specification's, foreign hands are tolerated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest
import redis
from smap_ledger_contract import P, ProjectLedgerContract, counts, ends, there

from headrace.errors import Conflict
from headrace_smap.ledger.redis_ledger import RedisLedger, keys_of
from headrace_smap.values import CRAWLING, DONE, INITIALIZING, PROCESSING, PROCESSING_WAIT, Standing

HASH, ITEMS, FAILED, FINISH, CRAWL = keys_of(P)
WEEK_S = 604_800


def initialised(foreign: redis.Redis, **changed: object) -> None:
    """What a foreign project service writes."""
    fields = {"status": INITIALIZING, "total": 0, "done": 0, "errors": 0, **changed}
    foreign.hset(HASH, mapping={name: str(value) for name, value in fields.items()})
    foreign.expire(HASH, WEEK_S)


class RedisLedgerContract(ProjectLedgerContract):
    """Brings: `ledger`, `redis_database`."""

    @pytest.fixture
    def foreign(self, redis_database: str) -> Iterator[redis.Redis]:
        """Somebody else's client, as in the specification."""
        with redis.Redis.from_url(redis_database, decode_responses=True) as client:
            yield client

    async def test_the_hash_has_four_fields_and_no_more(self, opened: RedisLedger, foreign: redis.Redis) -> None:
        assert foreign.hgetall(HASH) == {"status": INITIALIZING, "total": "0", "done": "0", "errors": "0"}
        await opened.expect(P, 2)
        await opened.settle(P, [*ends("a"), *ends("b", ok=False)])
        await opened.seal(P, 2)
        assert foreign.hgetall(HASH) == {"status": DONE, "total": "2", "done": "2", "errors": "1"}
        assert sorted(foreign.keys()) == sorted(keys_of(P))

    async def test_an_absent_project_leaves_no_key(self, ledger: RedisLedger, foreign: redis.Redis) -> None:
        await ledger.settle(P, ends("a"))
        await ledger.expect(P, 3)
        await ledger.seal(P, 3)
        await ledger.tally(P)
        assert foreign.keys() == []

    async def test_everything_expires_a_week_after_the_last_call(
        self, opened: RedisLedger, foreign: redis.Redis
    ) -> None:
        await opened.settle(P, [*ends("a"), *ends("b", ok=False)])
        calls: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: opened.expect(P, 3),
            lambda: opened.settle(P, []),
            lambda: opened.restore(P, Standing(CRAWLING, 4), []),
            lambda: opened.seal(P, 3),
            lambda: opened.tally(P),
        )
        for call in calls:
            for key in (HASH, ITEMS, FAILED):
                foreign.expire(key, 1_000)
            await call()
            assert {foreign.ttl(key) > WEEK_S - 60 for key in (HASH, ITEMS, FAILED)} == {True}
            assert foreign.ttl(CRAWL) > WEEK_S - 60

    async def test_what_is_restored_after_its_end_expires_when_it_would_have(
        self, ledger: RedisLedger, foreign: redis.Redis
    ) -> None:
        known = Standing(DONE, 1, ours=True, left_s=1_000)
        for _ in range(2):
            await ledger.restore(P, known, ends("a"))
            assert {900 < foreign.ttl(key) <= 1_000 for key in (HASH, ITEMS, FINISH)} == {True}

    async def test_looking_writes_an_expiry_once_an_hour_only(self, opened: RedisLedger, foreign: redis.Redis) -> None:
        foreign.expire(HASH, WEEK_S - 1_800)
        await opened.tally(P)
        assert foreign.ttl(HASH) <= WEEK_S - 1_800

    async def test_what_is_done_expires_a_week_after_that(self, opened: RedisLedger, foreign: redis.Redis) -> None:
        await opened.settle(P, [*ends("a"), *ends("b", ok=False)])
        foreign.expire(HASH, 1_000)
        await opened.seal(P, 2)
        assert {foreign.ttl(key) > WEEK_S - 60 for key in keys_of(P)} == {True}
        for key in keys_of(P):
            foreign.expire(key, 1_000)
        await opened.settle(P, ends("b"))
        await opened.settle(P, ends("c"))
        await opened.expect(P, 9)
        await opened.seal(P, None)
        await opened.tally(P)
        await opened.restore(P, Standing(DONE, 2), ends("a"))
        assert {foreign.ttl(key) <= 1_000 for key in (HASH, ITEMS, FINISH)} == {True}

    async def test_what_is_added_after_the_end_expires_with_the_rest(
        self, ledger: RedisLedger, foreign: redis.Redis
    ) -> None:
        initialised(foreign, status=DONE, total=2, done=2)
        foreign.expire(HASH, 1_000)
        await ledger.restore(P, Standing(DONE, 2, 2), [*ends("a"), *ends("b", ok=False)])
        assert {0 < foreign.ttl(key) <= 1_000 for key in (HASH, ITEMS, FAILED)} == {True}
        foreign.persist(HASH)
        await ledger.tally(P)
        assert foreign.ttl(HASH) > WEEK_S - 60

    async def test_a_foreign_collector_writes_the_hash_by_itself(
        self, ledger: RedisLedger, foreign: redis.Redis
    ) -> None:
        initialised(foreign)
        foreign.hset(HASH, "total", 2)
        foreign.hset(HASH, "status", CRAWLING)
        assert counts(await ledger.settle(P, ends("a", "b"))) == (CRAWLING, 2, 2, 0)
        foreign.hset(HASH, "total", 3)
        foreign.hset(HASH, "status", PROCESSING_WAIT)
        assert await ledger.projects() == [P]
        last = there(await ledger.settle(P, ends("c")))
        assert (counts(last), last.crossed) == ((DONE, 3, 3, 0), True)

    async def test_a_foreign_worker_counts_beside_ours(self, opened: RedisLedger, foreign: redis.Redis) -> None:
        await opened.seal(P, 3)
        foreign.hincrby(HASH, "done", 1)
        await opened.settle(P, ends("a"))
        foreign.hincrby(HASH, "done", 1)
        foreign.hincrby(HASH, "errors", 1)
        shown = there(await opened.tally(P))
        assert (shown.done - shown.counted, shown.errors - shown.failed) == (2, 1)
        assert (shown.reached, shown.status) == (True, PROCESSING)
        assert there(await opened.settle(P, [])).crossed

    async def test_increments_beyond_the_total_reach_it(self, opened: RedisLedger, foreign: redis.Redis) -> None:
        await opened.seal(P, 3)
        foreign.hincrby(HASH, "done", 3)
        after = there(await opened.settle(P, ends("a")))
        assert (counts(after), after.crossed) == ((DONE, 3, 4, 0), True)

    async def test_a_finish_that_somebody_else_wrote_is_not_ours(
        self, opened: RedisLedger, foreign: redis.Redis
    ) -> None:
        await opened.seal(P, 2)
        foreign.hincrby(HASH, "done", 2)
        foreign.hset(HASH, "status", DONE)
        after = there(await opened.settle(P, ends("a", "b")))
        assert (after.status, after.crossed, after.ours, after.counted) == (DONE, False, False, 2)

    async def test_what_is_done_by_others_keeps_its_total(self, ledger: RedisLedger, foreign: redis.Redis) -> None:
        initialised(foreign, status=DONE, total=2, done=2)
        assert counts(await ledger.expect(P, 5)) == (DONE, 2, 2, 0)

    async def test_items_are_remembered_when_somebody_begins_again(
        self, opened: RedisLedger, foreign: redis.Redis
    ) -> None:
        await opened.settle(P, [*ends("a", "b"), *ends("c", ok=False)])
        initialised(foreign)
        after = there(await opened.settle(P, ends("c", "d")))
        assert (after.done, after.errors, after.counted, after.failed) == (1, 0, 4, 0)
        assert counts(await opened.restore(P, Standing(CRAWLING, 9), [])) == (CRAWLING, 9, 4, 0)

    async def test_items_are_remembered_when_the_hash_alone_is_lost(
        self, opened: RedisLedger, foreign: redis.Redis
    ) -> None:
        await opened.settle(P, [*ends("a", "b"), *ends("c", ok=False)])
        foreign.delete(HASH)
        assert await opened.settle(P, ends("a")) is None
        assert await opened.open(P)
        assert counts(await opened.tally(P)) == (INITIALIZING, 0, 3, 1)
        foreign.delete(HASH)
        assert counts(await opened.restore(P, Standing(CRAWLING, 5), ends("d"))) == (CRAWLING, 5, 4, 1)

    async def test_a_project_finishes_once_even_if_somebody_begins_again(
        self, opened: RedisLedger, foreign: redis.Redis
    ) -> None:
        assert there(await opened.seal(P, 0)).crossed
        initialised(foreign)
        after = there(await opened.seal(P, 0))
        assert (after.status, after.crossed, after.ours) == (DONE, False, True)

    async def test_what_foreign_workers_counted_is_restored_with_the_rest(
        self, ledger: RedisLedger, foreign: redis.Redis
    ) -> None:
        known = Standing(PROCESSING, total=9, done=7, errors=3, counted=4, failed=1)
        for _ in range(2):
            assert counts(await ledger.restore(P, known, [*ends("a", "b", "c"), *ends("d", ok=False)])) == (
                (PROCESSING, 9, 7, 3)
            )
        foreign.hset(HASH, mapping={"done": 4, "errors": 1})
        assert counts(await ledger.restore(P, known, [])) == (PROCESSING, 9, 7, 3)
        foreign.hincrby(HASH, "done", 1)
        foreign.hincrby(HASH, "errors", 1)
        assert counts(await ledger.restore(P, known, ends("d", "e"))) == (PROCESSING, 9, 9, 3)

    async def test_a_restored_hash_is_whole(self, ledger: RedisLedger, foreign: redis.Redis) -> None:
        await ledger.restore(P, Standing(INITIALIZING), [])
        assert foreign.hgetall(HASH) == {"status": INITIALIZING, "total": "0", "done": "0", "errors": "0"}
        assert foreign.ttl(HASH) > WEEK_S - 60

    async def test_a_total_that_was_changed_after_the_end_is_put_back(
        self, opened: RedisLedger, foreign: redis.Redis
    ) -> None:
        await opened.settle(P, ends("a"))
        await opened.seal(P, 1)
        foreign.hset(HASH, mapping={"total": 50, "status": CRAWLING})
        after = await opened.restore(P, Standing(DONE, 1, ours=True), [])
        assert (counts(after), after.crossed) == ((DONE, 1, 1, 0), False)
        foreign.hset(HASH, "total", 50)
        assert counts(await opened.restore(P, Standing(DONE, 1), [])) == (DONE, 1, 1, 0)

    @pytest.mark.parametrize("missing", ["total", "done", "errors"])
    async def test_a_field_that_is_missing_is_nothing(
        self, ledger: RedisLedger, foreign: redis.Redis, missing: str
    ) -> None:
        initialised(foreign, done=4)
        assert there(await ledger.tally(P)).whole
        foreign.hdel(HASH, missing)
        done = 0 if missing == "done" else 4
        seen = there(await ledger.tally(P))
        assert (counts(seen), seen.whole) == ((INITIALIZING, 0, done, 0), False)
        after = counts(await ledger.settle(P, [*ends("a"), *ends("b", ok=False)]))
        assert after == (INITIALIZING, 0, done + 2, 1)
        assert counts(await ledger.expect(P, 9)) == (CRAWLING, 10, *after[2:])
        foreign.hdel(HASH, missing)
        assert (await ledger.restore(P, Standing(CRAWLING, 10), [])).whole
        assert set(foreign.hgetall(HASH)) == {"status", "total", "done", "errors"}

    @pytest.mark.parametrize("text", ["many", "007", "1.5", "-3", "", "9" * 30, "١٢"])
    async def test_text_in_place_of_a_number_breaks_nothing(
        self, ledger: RedisLedger, foreign: redis.Redis, text: str
    ) -> None:
        initialised(foreign, done=text, errors=text)
        after = there(await ledger.settle(P, [*ends("a", "b"), *ends("c", ok=False)]))
        assert (after.done, after.errors, after.counted, after.failed) == (0, 0, 3, 1)
        assert foreign.hmget(HASH, "done", "errors") == [text, text]
        assert counts(await ledger.restore(P, Standing(CRAWLING, 4), [])) == (CRAWLING, 4, 3, 1)

    @pytest.mark.parametrize("text", ["many", "-3", "", "9" * 30])
    async def test_a_total_that_cannot_be_read_is_never_reached(
        self, ledger: RedisLedger, foreign: redis.Redis, text: str
    ) -> None:
        initialised(foreign, status=PROCESSING_WAIT, total=text)
        after = there(await ledger.settle(P, ends("a")))
        assert (after.status, after.total, after.crossed) == (PROCESSING, 0, False)
        assert foreign.hget(HASH, "total") == text
        assert counts(await ledger.seal(P, 5)) == (PROCESSING, 5, 0, 0)

    async def test_a_status_of_somebody_else_is_left_alone(self, ledger: RedisLedger, foreign: redis.Redis) -> None:
        initialised(foreign, status="ĐANG CHỜ", total=1)
        await ledger.expect(P, 7)
        await ledger.seal(P, 2)
        after = there(await ledger.settle(P, ends("a", "b", "c")))
        assert (counts(after), after.crossed) == (("ĐANG CHỜ", 1, 3, 0), False)
        assert counts(await ledger.restore(P, Standing(PROCESSING, 3), [])) == (PROCESSING, 3, 3, 0)

    @pytest.mark.parametrize("key", keys_of(P))
    async def test_a_key_of_another_kind_is_refused_before_anything_is_written(
        self, opened: RedisLedger, foreign: redis.Redis, key: str
    ) -> None:
        foreign.delete(key)
        foreign.rpush(key, "somebody else's")
        before = {each: foreign.dump(each) for each in sorted(foreign.keys())}
        calls: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: opened.open(P),
            lambda: opened.expect(P, 1),
            lambda: opened.seal(P, 0),
            lambda: opened.settle(P, [*ends("a"), *ends("b", ok=False)]),
            lambda: opened.restore(P, Standing(CRAWLING, 5), ends("a")),
            lambda: opened.tally(P),
        )
        for call in calls:
            with pytest.raises(Conflict, match=key):
                await call()
        await opened.restore("another", Standing(CRAWLING, 3), [])
        assert [each and each.total for each in await opened.tallies([P, "another"])] == [None, 3]
        await opened.forget("another")
        assert {each: foreign.dump(each) for each in sorted(foreign.keys())} == before

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("expect", ["many"]),
            ("seal", ["token", "many"]),
            ("settle", ["token", "x" * 17, ""]),
            ("settle", ["token", "", "x" * 15]),
            ("restore", ["FINE", "1", "0", "0", "", "", "", "", "", ""]),
            ("restore", [CRAWLING, "many", "0", "0", "", "", "", "", "", ""]),
            ("restore", [CRAWLING, "1", "many", "0", "", "", "", "", "", ""]),
            ("restore", [CRAWLING, "1", "0", "many", "", "", "", "", "", ""]),
            ("restore", [CRAWLING, "1", "0", "0", "", "half", "", "", "", ""]),
            ("restore", [CRAWLING, "1", "0", "0", "", "", "", "", "x", ""]),
            ("restore", [CRAWLING, "1", "0", "0", "", "", "", "", "", "x"]),
        ],
    )
    async def test_arguments_that_cannot_be_meant_are_refused_before_anything_is_written(
        self, opened: RedisLedger, foreign: redis.Redis, name: str, arguments: list[str]
    ) -> None:
        before = {each: foreign.dump(each) for each in sorted(foreign.keys())}
        with pytest.raises(redis.ResponseError, match=r"not a number|16 bytes|has a status"):
            foreign.eval(getattr(opened.scripts, name).text, 5, *keys_of(P), *arguments)
        assert {each: foreign.dump(each) for each in sorted(foreign.keys())} == before
