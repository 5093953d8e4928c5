"""Rows and checkpoint in one transaction on real databases: exactly once, whoever is late and whatever is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pm_file_world import SPOOL, BrokenTables, FileWorld, maria_world
from pm_kafka_world import batch_of, file_batches, truth
from pm_table_rows import table_rows
from test_pm_kafka_sink import whole

from headrace.errors import ClaimLost
from headrace.tables import OpenTables, open_tables
from headrace.testing import Proxy
from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.counters.batch import CounterBatch
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.kafka.records import FileRevision
from headrace_pm.sinks.counter_columns import counter_columns
from headrace_pm.sinks.table_sink import ROWS_MAX, TableSink
from headrace_pm.tables import PM_TABLES
from headrace_pm.tables.checkpoints import SinkCheckpoints
from headrace_pm.tables.progress import FileProgress

BATCHES = 25


async def held_file(world: FileWorld) -> FileRevision:
    world.add(10)
    _, held = await world.hold()
    return FileRevision(held.file_id, held.file_name, held.revision, held.version, held.epoch)


def sink_on(tables: OpenTables) -> TableSink:
    return TableSink(tables, FileProgress(tables, SPOOL), parallel=2)


def all_batches() -> list[CounterBatch]:
    return list(file_batches(BATCHES, 1_000)(0))


async def test_every_row_is_there_once_from_any_checkpoint_on(file_world: FileWorld) -> None:
    file = await held_file(file_world)
    sink = sink_on(file_world.tables)
    done = await sink.write(file, lambda since: (batch_of(number, 1_000) for number in range(since, 13)))
    assert done == whole(all_batches()[:13])
    assert file_world.flags(file.file_id) == ("PARTIAL_DONE", True, False)
    assert await sink.write(file, file_batches(BATCHES, 1_000)) == whole(all_batches())
    assert table_rows(file_world.query) == truth(all_batches(), file.version)
    moved_at = sink.moved_at
    assert sink.rows == BATCHES * 1_000, "what a checkpoint had passed is not counted again"
    again = await sink.write(file, file_batches(BATCHES, 1_000))
    assert again == whole(all_batches()), "what is in changes nothing"
    assert sink.moved_at > moved_at > 0
    assert sink.rows == BATCHES * 1_000
    assert await SinkCheckpoints(file_world.tables).load(file.file_id, sink.name) == whole(all_batches())


async def test_a_server_without_the_bulk_command_gets_the_same_rows(
    mariadb_server: MariaServer, mariadb_database: str
) -> None:
    """MySQL has no such command. A newer version replaces, an older one does not: by the text of VALUES as by bulk."""
    async with (
        maria_world(mariadb_server, mariadb_database) as world,
        open_tables(f"{mariadb_database}?bulk=off", PM_TABLES) as by_text,
    ):
        sink, file = sink_on(by_text), await held_file(world)
        assert await sink.write(file, file_batches(BATCHES, 1_000)) == whole(all_batches())
        assert table_rows(world.query) == truth(all_batches(), file.version)
        wanted = []
        for version, value in ((9, 1.0), (8, 2.0), (9, 3.0), (10, 4.0)):
            async with by_text.transaction() as tx:
                tx.run_many("counters_upsert", [_row(number, version, value) for number in range(1_000)])
            wanted.append(
                world.query("SELECT DISTINCT counter_value, version, COUNT(*) FROM pm_counter_data WHERE ne_id = 77")
            )
        assert wanted == [[(1.0, 9, 1_000)], [(1.0, 9, 1_000)], [(3.0, 9, 1_000)], [(4.0, 10, 1_000)]]


def _row(number: int, version: int, value: float) -> dict[str, object]:
    numbers = {"ne_id": 77, "duration": 900, "counter_id": number, "cell_index": 1, "obj_hash": 1, "version": version}
    texts = {"group_code": "G", "rat_type": "NR", "extra_field": "{}"}
    return {**numbers, **texts, "counter_value": value, "record_time": datetime(2026, 1, 1, tzinfo=UTC)}


async def test_a_file_without_rows_has_its_flag(file_world: FileWorld) -> None:
    file = await held_file(file_world)
    assert await sink_on(file_world.tables).write(file, lambda _since: iter(())) == Checkpoint()
    assert file_world.flags(file.file_id) == ("PARTIAL_DONE", True, False)


async def late_writer(world: FileWorld, tables: OpenTables) -> None:
    file = await held_file(world)
    world.lose_holds()
    await world.hold("b")
    with pytest.raises(ClaimLost) as lost:
        # More than one transaction: the last one has the flag, which is fenced by itself.
        await sink_on(tables).write(file, file_batches(12, 1_000))
    assert lost.value.fence == file.epoch, "by its fence the worker knows that it is no failed attempt"
    assert table_rows(world.query) == []
    assert world.flags(file.file_id)[1] is False


async def test_a_late_writer_leaves_no_row(file_world: FileWorld) -> None:
    await late_writer(file_world, file_world.tables)


async def test_a_sink_without_its_fence_is_noticed(file_world: FileWorld) -> None:
    tables = file_world.opened[1]
    tables.tables = BrokenTables(tables.tables, "sink_advance", "epoch = :epoch")
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await late_writer(file_world, tables)


async def test_a_lost_answer_to_the_commit_is_asked_for(
    mariadb_server: MariaServer, pm_database: str, fault_proxy: Callable[[str], Proxy]
) -> None:
    """The rows are in, nobody knows, and the same unit again is not a second one."""
    async with maria_world(mariadb_server, pm_database) as world:
        file = await held_file(world)
        line = fault_proxy(pm_database)
        async with open_tables(line.url, PM_TABLES) as cut_off:
            line.cut_reply_to(b"COMMIT")
            assert await sink_on(cut_off).write(file, file_batches(BATCHES, 1_000)) == whole(all_batches())
        assert line.cuts == 1
        assert table_rows(world.query) == truth(all_batches(), file.version)


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
