"""Rows and checkpoint in one transaction on a real MariaDB: exactly once, whoever is late and whatever is lost."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pm_kafka_world import FILE, batch_of, file_batches, truth
from pm_table_rows import mysql_rows
from test_pm_file_claims import BrokenTables
from test_pm_kafka_sink import whole

from headrace.errors import ClaimLost
from headrace.tables import OpenTables, UnitOfWork, open_tables
from headrace.testing import Proxy
from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.counters.batch import CounterBatch
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.sinks.counter_columns import counter_columns
from headrace_pm.sinks.table_sink import ROWS_MAX, TableSink
from headrace_pm.tables import PM_TABLES

BATCHES = 25
SINK_ROW = "INSERT INTO pm_file_sink (file_id, sink, epoch) VALUES ({}, 'mysql', {})"
CHECKPOINT = 'SELECT next_batch, "rows", digest FROM pm_file_sink'


@dataclass
class RecordedEnds:
    """Notes with which transactions the flag would be set."""

    ended: list[tuple[int, int, str]] = field(default_factory=list)

    def record_sink_done(self, tx: UnitOfWork, file_id: int, epoch: int, sink: str) -> None:
        self.ended.append((file_id, epoch, sink))


@dataclass
class TableCheckpoints:
    tables: OpenTables

    async def load(self, file_id: int, sink: str) -> Checkpoint:
        found = await self.tables.one("sink_read", file_id=file_id, sink=sink)
        return Checkpoint(*found[1:]) if found else Checkpoint()

    async def save(self, file_id: int, sink: str, epoch: int, checkpoint: Checkpoint) -> None:
        raise AssertionError("a table has its checkpoint in the transaction of its rows")


@pytest.fixture(scope="module")
def sink_database(mariadb_server: MariaServer) -> Iterator[str]:
    with mariadb_server.database() as url:
        yield url


@pytest.fixture
async def tables(sink_database: str, mariadb_server: MariaServer) -> AsyncIterator[OpenTables]:
    async with open_tables(sink_database, PM_TABLES) as opened:
        for table in ("pm_file_sink", "pm_counter_data", "headrace_unit"):
            mariadb_server.query(f"DELETE FROM {table}", sink_database.rpartition("/")[2])
        yield opened


@pytest.fixture
def query(sink_database: str, mariadb_server: MariaServer) -> Callable[[str], list[tuple[Any, ...]]]:
    return lambda text: mariadb_server.query(text.replace('"', "`"), sink_database.rpartition("/")[2])


def sink_on(tables: OpenTables, ends: RecordedEnds | None = None) -> TableSink:
    return TableSink(tables, TableCheckpoints(tables), ends or RecordedEnds(), parallel=2)


def all_batches() -> list[CounterBatch]:
    return list(file_batches(BATCHES, 1_000)(0))


async def test_every_row_is_there_once_from_any_checkpoint_on(
    tables: OpenTables, sink_database: str, query: Callable[[str], list[Any]]
) -> None:
    query(SINK_ROW.format(FILE.file_id, FILE.epoch))
    ends = RecordedEnds()
    sink = sink_on(tables, ends)
    done = await sink.write(FILE, lambda since: (batch_of(number, 1_000) for number in range(since, 13)))
    assert ends.ended == [(FILE.file_id, FILE.epoch, "mysql")]
    assert done == whole(all_batches()[:13])
    assert await sink.write(FILE, file_batches(BATCHES, 1_000)) == whole(all_batches())
    assert mysql_rows(sink_database) == truth(all_batches())
    moved_at = sink.moved_at
    again = await sink.write(FILE, file_batches(BATCHES, 1_000))
    assert again == whole(all_batches()), "what is in changes nothing"
    assert sink.moved_at > moved_at > 0
    wanted = whole(all_batches())
    assert query(CHECKPOINT) == [(wanted.next_batch, wanted.rows, wanted.digest)]


async def test_a_file_without_rows_has_its_flag(tables: OpenTables, query: Callable[[str], list[Any]]) -> None:
    query(SINK_ROW.format(FILE.file_id, FILE.epoch))
    ends = RecordedEnds()
    assert await sink_on(tables, ends).write(FILE, lambda _since: iter(())) == Checkpoint()
    assert ends.ended == [(FILE.file_id, FILE.epoch, "mysql")]


async def late_writer(tables: OpenTables, sink_database: str, query: Callable[[str], list[Any]]) -> None:
    query(SINK_ROW.format(FILE.file_id, FILE.epoch + 1))
    with pytest.raises(ClaimLost) as lost:
        await sink_on(tables).write(FILE, file_batches(3))
    assert lost.value.fence == FILE.epoch, "by its fence the worker knows that it is no failed attempt"
    assert mysql_rows(sink_database) == []


async def test_a_late_writer_leaves_no_row(
    tables: OpenTables, sink_database: str, query: Callable[[str], list[Any]]
) -> None:
    await late_writer(tables, sink_database, query)


async def test_a_sink_without_its_fence_is_noticed(
    tables: OpenTables, sink_database: str, query: Callable[[str], list[Any]]
) -> None:
    tables.tables = BrokenTables(tables.tables, "sink_advance", "epoch = :epoch")
    with pytest.raises(pytest.fail.Exception):
        await late_writer(tables, sink_database, query)


async def test_a_lost_answer_to_the_commit_is_asked_for(
    tables: OpenTables,
    sink_database: str,
    query: Callable[[str], list[Any]],
    fault_proxy: Callable[[str], Proxy],
) -> None:
    """The rows are in, nobody knows, and the same unit again is not a second one."""
    query(SINK_ROW.format(FILE.file_id, FILE.epoch))
    line = fault_proxy(sink_database)
    async with open_tables(line.url, PM_TABLES) as cut_off:
        line.cut_reply_to(b"COMMIT")
        assert await sink_on(cut_off).write(FILE, file_batches(BATCHES, 1_000)) == whole(all_batches())
    assert line.cuts == 1
    assert mysql_rows(sink_database) == truth(all_batches())


def test_rows_stand_in_the_order_of_the_key_and_equal_keys_as_the_file_has_them() -> None:
    first, second = batch_of(3), replace(batch_of(3), number=4, counter_value=batch_of(3, value=9.0).counter_value)
    assert len(first) * 2 < ROWS_MAX
    rows = list(counter_columns([first, second], 7))
    keys = [[row[name] for name in ("ne_id", "record_time", "duration", "counter_id", "rat_type")] for row in rows]
    assert keys == sorted(keys)
    values = [row["counter_value"] for row in rows]
    assert [values[at] for at in range(1, len(values), 2)] == [None if at % 7 == 0 else 9.0 for at in range(20)]
    signed = list(counter_columns([first], 7, signed=True))
    assert {int(row["obj_hash"]) % 2**64 for row in signed} == set(first.objects.obj_hash.tolist())  # type: ignore[call-overload]
    assert json.loads(str(rows[0]["extra_field"]))["nodefunction"] == "gNodeB"
