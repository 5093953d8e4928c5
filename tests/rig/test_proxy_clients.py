"""The proxy's faults as real clients of real servers feel them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from waiting import by_the_clock

from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.rig.proxy import Proxy
from headrace.testing.rig.redis import RedisServer

IMPATIENT_S = 2.0


@pytest.fixture
def to_postgres(postgres_database: str, fault_proxy: Callable[[str], Proxy]) -> Proxy:
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute("CREATE TABLE entry (number integer)")
    return fault_proxy(postgres_database)


@pytest.fixture
def to_redis(redis_database: str, fault_proxy: Callable[[str], Proxy]) -> Proxy:
    return fault_proxy(redis_database)


@pytest.fixture
def client(to_redis: Proxy) -> Iterator[redis.Redis]:
    """Without the client's own retries: they would hide what the line does."""
    with redis.Redis.from_url(to_redis.url, socket_timeout=IMPATIENT_S, retry=Retry(NoBackoff(), 0)) as client:
        yield client


def entries(url: str) -> int:
    with psycopg.connect(url) as connection:
        return len(connection.execute("SELECT number FROM entry").fetchall())


class TestPostgres:
    @pytest.mark.parametrize(("arrives", "expected"), [(True, 1), (False, 0)])
    def test_a_commit_without_an_answer_may_or_may_not_have_been_made(
        self, to_postgres: Proxy, postgres_database: str, arrives: bool, expected: int
    ) -> None:
        connection = psycopg.connect(to_postgres.url)
        connection.execute("INSERT INTO entry VALUES (1)")
        (to_postgres.cut_reply_to if arrives else to_postgres.cut_before)(b"COMMIT")
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
        assert (to_postgres.cuts, entries(postgres_database)) == (1, expected)
        assert connection.closed

    def test_latency_is_added_to_every_round_trip(self, to_postgres: Proxy) -> None:
        with psycopg.connect(to_postgres.url, autocommit=True) as connection:
            to_postgres.latency(0.05)

            def proof() -> None:
                begun = time.monotonic()
                for _ in range(3):
                    connection.execute("SELECT 1")
                assert 0.3 <= time.monotonic() - begun < 0.6

            by_the_clock(proof)

    def test_a_reset_breaks_a_connection_and_a_new_one_works(self, to_postgres: Proxy) -> None:
        connection = psycopg.connect(to_postgres.url, autocommit=True)
        to_postgres.reset()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        assert (to_postgres.cuts, entries(to_postgres.url)) == (1, 0)

    def test_a_long_answer_is_cut_in_the_middle(self, to_postgres: Proxy) -> None:
        connection = psycopg.connect(to_postgres.url, autocommit=True)
        to_postgres.cut_after(10_000)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT repeat('x', 100) FROM generate_series(1, 10000)")
        assert to_postgres.cuts == 1

    def test_connecting_into_a_black_hole_times_out_and_works_after_healing(self, to_postgres: Proxy) -> None:
        to_postgres.black_hole()
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            psycopg.connect(to_postgres.url, connect_timeout=2)
        to_postgres.heal()
        assert entries(to_postgres.url) == 0

    def test_a_server_that_was_killed_is_reached_again_when_it_is_back(
        self, to_postgres: Proxy, postgres_server: PostgresServer
    ) -> None:
        connection = psycopg.connect(to_postgres.url, autocommit=True)
        postgres_server.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(to_postgres.url)
        postgres_server.start()
        assert entries(to_postgres.url) == 0


class TestRedis:
    @pytest.mark.parametrize(("arrives", "expected"), [(True, b"1"), (False, None)])
    def test_a_command_without_an_answer_may_or_may_not_have_run(
        self, client: redis.Redis, to_redis: Proxy, arrives: bool, expected: bytes | None
    ) -> None:
        client.ping()
        (to_redis.cut_reply_to if arrives else to_redis.cut_before)(b"INCR")
        with pytest.raises(redis.ConnectionError):
            client.incr("counter")
        assert (to_redis.cuts, client.get("counter")) == (1, expected)

    def test_a_pipeline_is_cut_where_the_pattern_stands(self, client: redis.Redis, to_redis: Proxy) -> None:
        client.ping()
        to_redis.cut_before(b"second")
        pipeline = client.pipeline(transaction=False)
        for key in ("first", "second", "third"):
            pipeline.set(key, 1)
        with pytest.raises(redis.ConnectionError):
            pipeline.execute()
        assert (to_redis.cuts, client.mget("first", "second", "third")) == (1, [b"1", None, None])

    def test_replies_in_a_black_hole_hide_what_was_done(
        self, client: redis.Redis, to_redis: Proxy, redis_server: RedisServer
    ) -> None:
        client.ping()
        to_redis.black_hole("replies")
        with pytest.raises(redis.TimeoutError):
            client.set("done", "yes")
        assert redis_server.call("GET", "done", database=1) == "yes"
        to_redis.heal()
        assert client.get("done") == b"yes"

    def test_requests_in_a_black_hole_do_not_run(
        self, client: redis.Redis, to_redis: Proxy, redis_server: RedisServer
    ) -> None:
        client.ping()
        to_redis.black_hole("requests")
        with pytest.raises(redis.TimeoutError):
            client.set("done", "yes")
        assert redis_server.call("GET", "done", database=1) is None

    def test_a_narrow_line_takes_its_time(self, client: redis.Redis, to_redis: Proxy) -> None:
        client.set("large", bytes(100_000))
        to_redis.bandwidth(250_000, "replies")

        def proof() -> None:
            begun = time.monotonic()
            assert client.get("large") == bytes(100_000)
            assert 0.3 < time.monotonic() - begun < 0.8

        by_the_clock(proof)

    def test_a_refused_connection_is_told_and_works_after_healing(self, client: redis.Redis, to_redis: Proxy) -> None:
        to_redis.refuse()
        with pytest.raises(redis.ConnectionError, match="refused"):
            client.ping()
        to_redis.heal()
        assert client.ping()
