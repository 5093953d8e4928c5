"""Redis and the way to it fail: a call is sent again until its answer is known, and counts stay exact."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import redis
from smap_ledger_contract import P, counts, ends, there
from smap_ledger_redis_contract import FAILED, HASH, ITEMS
from waiting import turn

from headrace.errors import Busy, StoreFull, Unreachable
from headrace.testing.rig import Proxy
from headrace.testing.rig.redis import RedisServer
from headrace_smap.ledger.redis_calls import CONNECTIONS_MAX, RedisCalls
from headrace_smap.ledger.redis_ledger import RedisLedger, load_scripts, open_redis_ledger
from headrace_smap.values import CRAWL_OPEN, CRAWL_SEALED, CRAWLING, DONE, INITIALIZING, PROCESSING, PostEnd, Standing

SCRIPTS = load_scripts()
CUT = "proj_cut"


@pytest.fixture
def proxy(redis_database: str, fault_proxy: Callable[[str], Proxy]) -> Proxy:
    return fault_proxy(redis_database)


@pytest.fixture
async def ledger(proxy: Proxy) -> AsyncIterator[RedisLedger]:
    async with open_redis_ledger(proxy.url) as ledger:
        yield ledger


@pytest.fixture
async def hasty(proxy: Proxy) -> AsyncIterator[RedisLedger]:
    """A ledger that does not wait long for an answer."""
    calls = RedisCalls(proxy.url, 1, proxy.url, answer_s=0.1)
    yield RedisLedger(calls)
    await calls.close()


@pytest.fixture
def server(redis_server: RedisServer) -> Iterator[RedisServer]:
    yield redis_server
    make_right(redis_server)


def make_right(server: RedisServer) -> None:
    server.call("CONFIG", "SET", "maxmemory", "0")
    server.call("CONFIG", "SET", "min-replicas-to-write", "0")
    server.call("REPLICAOF", "NO", "ONE")


async def test_a_lost_answer_is_asked_for_again(ledger: RedisLedger, proxy: Proxy) -> None:
    await ledger.open(P)
    for number, lose in enumerate((proxy.cut_reply_to, proxy.cut_before)):
        lose(SCRIPTS.expect.sha.encode())
        assert counts(await ledger.expect(P, 4)) == (CRAWLING, 5, number * 2, number)
        lose(SCRIPTS.settle.sha.encode())
        after = await ledger.settle(P, [*ends(f"a{number}"), *ends(f"b{number}", ok=False)])
        assert counts(after) == (CRAWLING, 5, number * 2 + 2, number + 1)
        lose(SCRIPTS.restore.sha.encode())
        assert counts(await ledger.restore(P, Standing(CRAWLING, 5), ends(f"a{number}"))) == counts(after)
        lose(SCRIPTS.tally.sha.encode())
        assert await ledger.tallies([P]) == [Standing(*counts(after), number * 2 + 2, number + 1, crawl=CRAWL_OPEN)]
    assert proxy.cuts == 8


async def test_whoever_crosses_the_line_learns_it_though_the_answer_is_lost(ledger: RedisLedger, proxy: Proxy) -> None:
    await ledger.open(P)
    await ledger.seal(P, 1)
    proxy.cut_reply_to(SCRIPTS.settle.sha.encode())
    assert there(await ledger.settle(P, ends("a"))) == Standing(
        DONE, 1, 1, 0, 1, crossed=True, ours=True, crawl=CRAWL_SEALED
    )
    await ledger.open("empty")
    proxy.cut_reply_to(SCRIPTS.seal.sha.encode())
    assert there(await ledger.seal("empty", 0)).crossed
    assert not there(await ledger.seal("empty", 0)).crossed


async def test_a_server_that_forgot_the_scripts_is_taught_again(ledger: RedisLedger, redis_server: RedisServer) -> None:
    redis_server.call("SCRIPT", "FLUSH")
    assert await ledger.open(P)
    redis_server.call("SCRIPT", "FLUSH")
    assert there(await ledger.settle(P, ends("a"))).new == 1
    redis_server.call("SCRIPT", "FLUSH")
    assert [each and each.done for each in await ledger.tallies([P, "nobody", P])] == [1, None, 1]


async def test_a_server_that_is_away_is_unreachable_until_it_is_back(
    ledger: RedisLedger, redis_server: RedisServer
) -> None:
    await asyncio.gather(*(ledger.open(f"p{number}") for number in range(CONNECTIONS_MAX * 3)))
    era = await ledger.era()
    redis_server.kill()
    with pytest.raises(Unreachable, match="does not answer") as refused:
        await ledger.settle("p0", ends("a"))
    assert refused.value.hint
    redis_server.start()
    assert there(await ledger.settle("p0", ends("a"))).new == 1
    assert await ledger.era() != era


async def test_a_server_that_is_silent_is_not_waited_for_for_ever(hasty: RedisLedger, proxy: Proxy) -> None:
    await hasty.open(P)
    proxy.black_hole("replies")
    with pytest.raises(Unreachable):
        await hasty.settle(P, ends("a"))
    proxy.heal()
    assert counts(await hasty.settle(P, ends("a", "b"))) == (INITIALIZING, 0, 2, 0)


async def test_the_answer_to_an_abandoned_call_is_not_taken_for_another(
    ledger: RedisLedger, redis_server: RedisServer
) -> None:
    await ledger.open(P)
    await ledger.open("other")
    redis_server.pause()
    abandoned = [asyncio.create_task(ledger.settle(P, ends(f"a{number}"))) for number in range(4)]
    await turn()
    for task in abandoned:
        task.cancel()
    await asyncio.gather(*abandoned, return_exceptions=True)
    redis_server.resume()
    assert counts(await ledger.tally("other")) == (INITIALIZING, 0, 0, 0)
    assert await ledger.tally("nobody") is None


async def test_without_memory_nothing_is_half_counted(
    ledger: RedisLedger, server: RedisServer, redis_database: str
) -> None:
    await ledger.open(P)
    await ledger.settle(P, [*ends("a"), *ends("b", ok=False)])
    server.call("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(StoreFull, match="maxmemory"):
        await ledger.settle(P, [*ends("b", "c"), *ends("d", ok=False)])
    with redis.Redis.from_url(redis_database) as client:
        assert [client.hget(HASH, "done"), client.scard(ITEMS), client.scard(FAILED)] == [b"2", 1, 1]
    server.call("CONFIG", "SET", "maxmemory", "0")
    after = await ledger.settle(P, [*ends("b", "c"), *ends("d", ok=False)])
    assert counts(after) == (INITIALIZING, 0, 4, 1)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (("REPLICAOF", "127.0.0.1", "1"), "read only"),
        (("CONFIG", "SET", "min-replicas-to-write", "1"), "NOREPLICAS"),
    ],
)
async def test_a_server_that_takes_no_writes_is_tried_again_later(
    ledger: RedisLedger, server: RedisServer, state: tuple[str, ...], why: str
) -> None:
    await ledger.open(P)
    server.call(*state)
    with pytest.raises(Busy, match=why):
        await ledger.settle(P, ends("a"))
    make_right(server)
    assert there(await ledger.settle(P, ends("a"))).new == 1


async def test_many_calls_at_once_share_few_connections(ledger: RedisLedger, proxy: Proxy) -> None:
    await ledger.open(P)
    posts = [f"i{number}" for number in range(400)]
    await asyncio.gather(*(ledger.settle(P, ends(post)) for post in posts))
    assert counts(await ledger.tally(P)) == (INITIALIZING, 0, 400, 0)
    assert proxy.connections <= CONNECTIONS_MAX


async def test_what_a_power_cut_took_is_added_again(ledger: RedisLedger, redis_server: RedisServer) -> None:
    # The moment in which the database was emptied for this test is lost as well: a name that no other test has.
    await ledger.open(CUT)
    await ledger.expect(CUT, 40)
    era = await ledger.era()
    truth = [PostEnd(f"i{number}", number % 4 > 0) for number in range(40)]
    await ledger.settle(CUT, truth[:10])
    await ledger.settle(CUT, truth)
    sealed = there(await ledger.seal(CUT, 40))
    assert sealed.crossed
    redis_server.restart(lose_last_second=True)
    lost = await ledger.tally(CUT)
    assert lost is None or lost.status != DONE
    assert await ledger.era() != era
    for first in range(0, 40, 15):
        after = await ledger.restore(CUT, Standing(PROCESSING, 40), truth[first : first + 15])
    assert (counts(after), after.crossed) == ((PROCESSING, 40, 40, 10), False)
    assert there(await ledger.settle(CUT, [])).crossed
