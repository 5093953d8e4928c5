"""A Redis that could lose the account is refused, with the way out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from smap_ledger_contract import P

from headrace.errors import CallerError, OperatorError, Unreachable, UnsafeStore
from headrace.testing.rig import ports
from headrace.testing.rig.redis import RedisServer
from headrace_smap.ledger.redis_checks import database_of, shown
from headrace_smap.ledger.redis_ledger import open_redis_ledger

EVICTING = ("allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl")


@pytest.fixture
def settings_put_back(redis_server: RedisServer) -> Iterator[None]:
    yield
    redis_server.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    redis_server.call("ACL", "DELUSER", "smap")


def test_the_database_is_one_unless_another_is_named() -> None:
    assert database_of("redis://smap-redis-master:6379") == 1
    assert database_of("redis://smap-redis-master:6379/") == 1
    assert database_of("rediss://u:p@host/7") == 7
    assert database_of("redis://host?db=3") == 3
    assert database_of("unix:///run/redis.sock?db=2") == 2
    assert database_of("unix:///run/redis.sock") == 1


@pytest.mark.parametrize("url", ["redis://h:6379/0", "redis://h/00", "redis://h?db=0", "unix:///run/redis.sock?db=0"])
def test_the_database_of_the_cache_is_refused_with_the_reason(url: str) -> None:
    with pytest.raises(CallerError, match="database 0, which is the cache's") as refused:
        database_of(url)
    assert "database 1" in refused.value.hint


@pytest.mark.parametrize(
    "url", ["localhost:6379", "http://h/1", "redis://h/one", "redis://h:port/1", "redis://h/1/2", ""]
)
def test_what_names_no_redis_is_refused(url: str) -> None:
    with pytest.raises(CallerError, match="SMAP_REDIS_URL"):
        database_of(url)


def test_no_error_shows_a_password() -> None:
    assert shown("redis://user:se:cr@t@host/1") == "redis://user:***@host/1"
    assert shown("redis://:secret@host/1") == "redis://:***@host/1"
    assert shown("redis://host/1?password=secret&db=2") == "redis://host/1?password=***&db=2"
    assert shown("redis://host:6379/1") == "redis://host:6379/1"
    with pytest.raises(CallerError) as refused:
        database_of("redis://:secret@host/0")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("policy", EVICTING)
async def test_a_redis_that_evicts_is_refused_with_the_way_out(
    redis_database: str, redis_server: RedisServer, settings_put_back: None, policy: str
) -> None:
    redis_server.call("CONFIG", "SET", "maxmemory-policy", policy)
    with pytest.raises(UnsafeStore, match=policy) as refused:
        async with open_redis_ledger(redis_database):
            pytest.fail("it was opened")
    assert "CONFIG SET maxmemory-policy noeviction" in refused.value.hint


@pytest.mark.parametrize("denied", ["-info", "-config"])
async def test_a_user_needs_the_right_to_ask_for_info_and_for_nothing_else(
    redis_database: str, redis_server: RedisServer, settings_put_back: None, denied: str
) -> None:
    redis_server.call("ACL", "SETUSER", "smap", "on", ">word", "~*", "+@all", denied)
    url = redis_database.replace("://", "://smap:word@")
    if denied == "-info":
        with pytest.raises(OperatorError, match="does not tell its maxmemory-policy") as refused:
            async with open_redis_ledger(url):
                pytest.fail("it was opened")
        assert refused.value.hint == "allow the user INFO"
    else:
        async with open_redis_ledger(url) as ledger:
            assert await ledger.open(P)
            assert await ledger.era()


async def test_a_wrong_password_is_the_operators_matter_and_not_shown(
    redis_database: str, redis_server: RedisServer, settings_put_back: None
) -> None:
    redis_server.call("ACL", "SETUSER", "smap", "on", ">word", "~*", "+@all")
    with pytest.raises(OperatorError, match=r"smap:\*\*\*@") as refused:
        async with open_redis_ledger(redis_database.replace("://", "://smap:secret@")):
            pytest.fail("it was opened")
    assert not isinstance(refused.value, Unreachable)
    assert "SMAP_REDIS_URL" in refused.value.hint
    assert "secret" not in str(refused.value)


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port at which nobody listens."""
    port = ports.reserve_port()
    yield port
    ports.give_back(port)


async def test_no_redis_at_all_is_unreachable(nobody: int) -> None:
    with pytest.raises(Unreachable, match="does not answer"):
        async with open_redis_ledger(f"redis://127.0.0.1:{nobody}/1"):
            pytest.fail("it was opened")


async def test_the_default_database_is_really_used(redis_database: str, redis_server: RedisServer) -> None:
    async with open_redis_ledger(redis_database.removesuffix("/1")) as ledger:
        await ledger.open(P)
    with redis.Redis.from_url(redis_server.url_of(1)) as client:
        assert client.exists(f"smap:proj:{P}")
