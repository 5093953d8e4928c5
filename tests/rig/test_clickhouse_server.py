"""ClickHouse as chDB: what its Python client does with it, what stays, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import clickhouse_connect
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from headrace.core.errors import CallerError
from headrace.testing.rig.clickhouse import ClickHouseServer
from headrace.testing.rig.kept import Kept
from headrace.testing.rig.proxy import Proxy

COUNTER = """CREATE TABLE counter (ne UInt32, value Nullable(Float64), extra String, version UInt64)
ENGINE = ReplacingMergeTree(version) ORDER BY ne SETTINGS non_replicated_deduplication_window = 100"""
NAMES = ["ne", "value", "extra", "version"]
UNKNOWN_TABLE, TOO_MANY_PARTS = "code: 60", "code: 252"


@contextmanager
def clickhouse(url: str) -> Iterator[Client]:
    place = urlsplit(url)
    client = clickhouse_connect.get_client(
        host=place.hostname, port=place.port or 0, database=place.path.lstrip("/"), compress=False
    )
    try:
        yield client
    finally:
        client.close()


def test_an_insert_that_was_answered_survives_a_kill(
    clickhouse_database: str, clickhouse_server: ClickHouseServer
) -> None:
    with clickhouse(clickhouse_database) as client:
        client.command(COUNTER)
        for number in range(20):
            client.insert("counter", [[number, 0.5, "{}", 1]], column_names=NAMES)
    clickhouse_server.kill()
    clickhouse_server.start()
    with clickhouse(clickhouse_database) as client:
        assert client.query("SELECT count(), max(ne) FROM counter").result_rows == [(20, 19)]


def test_final_reads_the_highest_version_of_a_row_whatever_came_last(clickhouse_database: str) -> None:
    with clickhouse(clickhouse_database) as client:
        client.command(COUNTER)
        for version, value in ((2, 2.5), (3, None), (1, 1.5)):
            client.insert("counter", [[7, value, "it's \\ ü", version]], column_names=NAMES)
        assert client.query("SELECT count() FROM counter").result_rows == [(3,)]
        assert client.query("SELECT * FROM counter FINAL").result_rows == [(7, None, "it's \\ ü", 3)]
        named = client.query("SELECT count() FROM counter FINAL WHERE ne = {ne:UInt32}", parameters={"ne": 7})
        assert named.result_rows == [(1,)]


def test_a_block_with_the_token_of_another_counts_once(clickhouse_database: str) -> None:
    with clickhouse(clickhouse_database) as client:
        client.command(COUNTER)
        for number, token in ((1, "file-1"), (2, "file-1"), (3, "file-2")):
            row = [number, 0.0, "", 1]
            client.insert("counter", [row], column_names=NAMES, settings={"insert_deduplication_token": token})
        assert client.query("SELECT ne FROM counter ORDER BY ne").result_rows == [(1,), (3,)]


def test_so_many_blocks_as_one_wants_are_refused_and_leave_nothing(
    clickhouse_database: str, clickhouse_server: ClickHouseServer
) -> None:
    with clickhouse(clickhouse_database) as client:
        client.command(COUNTER)
        clickhouse_server.refuse_blocks(2)
        for _ in range(2):
            with pytest.raises(DatabaseError, match=TOO_MANY_PARTS):
                client.insert("counter", [[1, 0.0, "", 1]], column_names=NAMES)
        assert client.query("SELECT count() FROM counter").result_rows == [(0,)]
        client.insert("counter", [[1, 0.0, "", 1]], column_names=NAMES)
        assert client.query("SELECT count() FROM counter").result_rows == [(1,)]


def test_an_error_has_the_number_that_clickhouse_gives_it(clickhouse_database: str) -> None:
    with clickhouse(clickhouse_database) as client, pytest.raises(DatabaseError, match=UNKNOWN_TABLE):
        client.query("SELECT * FROM nowhere")


def test_an_insert_without_an_answer_is_there(clickhouse_database: str, fault_proxy: Callable[[str], Proxy]) -> None:
    proxy = fault_proxy(clickhouse_database)
    with clickhouse(proxy.url) as client:
        client.command(COUNTER)
        proxy.cut_reply_to(b"INSERT INTO", times=10)
        with pytest.raises(OperationalError):
            client.insert("counter", [[1, 0.0, "", 1]], column_names=NAMES)
        proxy.heal()
        assert client.query("SELECT ne, value FROM counter FINAL").result_rows == [(1, 0.0)]


async def test_its_status_says_that_it_is_no_server() -> None:
    kept = await Kept.start("clickhouse", {})
    try:
        assert (await kept.document())["version"].endswith(" (chDB, no server)")
    finally:
        await kept.remove()


def test_a_setting_that_it_does_not_know_is_refused() -> None:
    with pytest.raises(CallerError, match="no setting max_threads=2"), ClickHouseServer({"max_threads": "2"}):
        """It does not come so far."""
