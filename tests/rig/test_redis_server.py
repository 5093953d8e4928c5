"""Redis: what a kill leaves, what a power cut takes, and what it is told at its start."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import redis
from waiting import by_the_clock, until

from headrace.core.errors import CallerError, OperatorError
from headrace.testing.rig.append_only import cut_back
from headrace.testing.rig.redis import RedisServer

CLIENT_S_MAX = 60.0
# Between a reply and the moment its arrival is noted.
SLACK_S = 0.25


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as started:
        yield started


def client_of(server: RedisServer, database: int = 0) -> redis.Redis:
    return redis.Redis.from_url(server.url_of(database), decode_responses=True, socket_timeout=CLIENT_S_MAX)


class Counter:
    """Counts in a server and remembers when each count was acknowledged."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self._client = client_of(server)
        self._client.set("early", "here")
        self._acknowledged: list[float] = []

    def count(self) -> None:
        # A transaction: no half of it may survive a cut.
        with self._client.pipeline(transaction=True) as both:
            both.incr("count")
            both.rpush("counts", "#TS:1")
            both.execute()
        self._acknowledged.append(time.monotonic())

    def cut(self) -> tuple[float, float]:
        """After a power cut: how long before it the last count was made that survived, and the first that did not."""
        cut_at = time.monotonic()
        self.server.restart(lose_last_second=True)
        with client_of(self.server) as client:
            survived = int(client.get("count") or 0)
            assert client.get("early") == "here"
            assert client.llen("counts") == survived
        assert 0 < survived < len(self._acknowledged)
        return cut_at - self._acknowledged[survived - 1], cut_at - self._acknowledged[survived]


def count_for(counters: Sequence[Counter], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for counter in counters:
            counter.count()


def rewrite_slowly(server: RedisServer) -> None:
    """Begin a rewrite of the append-only file that is still going on when the power fails."""
    server.call("CONFIG", "SET", "rdb-key-save-delay", "5000000")
    server.call("BGREWRITEAOF")


def rewrite_and_wait(server: RedisServer) -> None:
    server.call("BGREWRITEAOF")
    under_way = "aof_rewrite_in_progress:1"
    until(lambda: under_way not in str(server.call("INFO", "persistence")), "the file is rewritten", CLIENT_S_MAX)


def test_a_power_cut_takes_one_second_and_never_two_also_during_and_after_a_rewrite() -> None:
    by_the_clock(check_power_cuts)


def check_power_cuts() -> None:
    with RedisServer() as plain, RedisServer() as rewriting, RedisServer() as rewritten:
        counters = [Counter(each) for each in (plain, rewriting, rewritten)]
        count_for(counters, 1.2)
        rewrite_slowly(rewriting)
        rewrite_and_wait(rewritten)
        # In the middle of a second: one and a half are lost.
        count_for(counters, 1.0 + (0.4 - time.time()) % 1.0)
        assert [len(list(each.server.home.glob("*/*.incr.aof"))) for each in counters] == [1, 2, 1]
        for counter in counters:
            last_kept_s, first_lost_s = counter.cut()
            assert 1.0 - SLACK_S < first_lost_s <= last_kept_s < 2.0 + SLACK_S
            # And it goes on as if nothing had been.
            counter.server.kill()
            counter.server.start()
            assert counter.server.call("GET", "early") == "here"


def test_a_rewrite_that_has_just_ended_was_synced_and_stays() -> None:
    by_the_clock(check_a_rewrite)


def check_a_rewrite() -> None:
    with RedisServer() as server:
        counter = Counter(server)
        count_for([counter], 0.1)
        rewrite_and_wait(server)
        with client_of(server) as client:
            synced = int(client.get("count") or 0)
            client.set("late", "not synced")
            server.restart(lose_last_second=True)
        with client_of(server) as client:
            assert int(client.get("count") or 0) == synced
            assert client.get("late") is None


def test_a_kill_loses_nothing_that_was_acknowledged() -> None:
    with RedisServer({"appendfsync": "always"}) as server, client_of(server) as client:
        counts = [client.incr("count") for _ in range(200)]
        server.kill()
        server.start()
        with client_of(server) as again:
            assert int(again.get("count") or 0) == counts[-1] == 200


def test_where_nothing_can_be_lost_a_power_cut_is_refused() -> None:
    with RedisServer() as server:
        for settings in ({"appendfsync": "always"}, {"appendonly": "no"}):
            server.stop()
            server.start(settings)
            with pytest.raises(CallerError, match="no last second to lose"):
                server.restart(lose_last_second=True)
            assert server.running


def test_the_file_is_cut_between_commands_and_not_in_a_value_that_looks_like_a_mark(tmp_path: Path) -> None:
    first = b"#TS:100\r\n*2\r\n$3\r\nSET\r\n$11\r\n#TS:999\r\n\r\n\r\n"
    second = b"#TS:101\r\n*1\r\n$4\r\nPING\r\n"
    (tmp_path / "a.aof.manifest").write_text(
        "file a.1.base.rdb seq 1 type b\nfile a.0.incr.aof seq 0 type h\n"
        "file a.1.incr.aof seq 1 type i\nfile a.2.incr.aof seq 2 type i\n"
    )
    (tmp_path / "a.1.base.rdb").write_bytes(b"REDIS0010\xfa\x05ctime\xc2\x01\x00\x00\x00")
    history, one, two = (tmp_path / f"a.{number}.incr.aof" for number in range(3))
    for path in (history, one, two):
        path.write_bytes(first + second)
    two.write_bytes(b"*1\r\n$4\r\nPING\r\n*1\r\n$400\r\nnot comp")

    cut_back(tmp_path, 102)
    assert (one.read_bytes(), two.stat().st_size > 0) == (first + second, True)
    cut_back(tmp_path, 101)
    assert (history.read_bytes(), one.read_bytes(), two.read_bytes()) == (first + second, first, b"")

    # Without a mark the commands are as old as their base, which says that it was made in second 1.
    one.write_bytes(b"*1\r\n$4\r\nPING\r\n")
    cut_back(tmp_path, 2)
    assert one.stat().st_size > 0
    cut_back(tmp_path, 1)
    assert one.read_bytes() == b""


def test_it_is_durable_and_evicts_nothing_unless_told_otherwise(server: RedisServer) -> None:
    assert str(server.call("INFO", "server")).count("redis_version:7.") == 1
    wanted = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "save": ""}
    for directive, value in {**wanted, "databases": "16", "bind": "127.0.0.1"}.items():
        assert server.call("CONFIG", "GET", directive) == [directive, value]


def test_settings_hold_for_one_start_or_for_all() -> None:
    with RedisServer({"maxmemory": "64mb"}) as server:
        server.stop()
        server.start({"appendfsync": "always", "client-output-buffer-limit": "pubsub 1mb 1mb 60"})
        assert server.call("CONFIG", "GET", "appendfsync") == ["appendfsync", "always"]
        assert "pubsub 1048576 1048576 60" in str(server.call("CONFIG", "GET", "client-output-buffer-limit"))
        server.restart()
        assert server.call("CONFIG", "GET", "appendfsync") == ["appendfsync", "everysec"]
        assert server.call("CONFIG", "GET", "maxmemory") == ["maxmemory", "67108864"]


def test_emptying_one_database_leaves_the_others(server: RedisServer) -> None:
    with client_of(server, 1) as one, client_of(server, 2) as two:
        one.set("key", "value")
        two.set("key", "value")
        server.empty()
        assert (one.dbsize(), two.dbsize()) == (0, 1)
        server.empty(2)
        assert two.dbsize() == 0


def test_an_error_is_not_taken_for_an_answer(server: RedisServer) -> None:
    with pytest.raises(OSError, match="unknown command"):
        server.call("NONSENSE")
    assert server.call("GET", "nothing") is None


def test_a_server_that_still_loads_its_file_is_not_ready() -> None:
    with RedisServer({"rdbcompression": "no"}) as server:
        for number in range(60):
            server.call("SET", f"key {number}", "value" * 1_000)
        rewrite_and_wait(server)
        server.stop()
        # So many microseconds for every key, and a look at its clients after so many bytes.
        server.start({"key-load-delay": "5000", "loading-process-events-interval-bytes": "1024"})
        assert server.call("DBSIZE") == 60


def test_a_setting_that_redis_does_not_know_is_shown_with_its_log() -> None:
    with RedisServer() as server:
        server.stop()
        with pytest.raises(OperatorError, match="no-such-directive"):
            server.start({"no-such-directive": "1"})
        assert not server.running
        assert server.start().call("PING") == "PONG"
