"""From a real Kafka into chDB: every row once under FINAL, whatever is repeated, refused or killed on the way."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError
from confluent_kafka import TopicPartition
from pm_clickhouse_world import (
    PATIENCE_S,
    all_in,
    change_table,
    committed,
    connected,
    put,
    raw_count,
    rewind,
    running,
    table_rows,
)
from pm_kafka_world import FILE, MemoryCheckpoints, Row, batch_of, file_batches, ordered, settings_of, truth
from prometheus_client import CollectorRegistry
from waiting import eventually

from headrace.errors import Busy, HeadraceError, SchemaMismatch, Unknown
from headrace.testing.rig.clickhouse import ClickHouseServer
from headrace.testing.rig.kafka import KafkaServer
from headrace.testing.rig.proxy import Proxy
from headrace_pm.clickhouse.blocks import Block, plan_text
from headrace_pm.clickhouse.client import ClickHouse
from headrace_pm.clickhouse.consumer import TopicConsumer
from headrace_pm.clickhouse.errors import BlockRefused, meaning
from headrace_pm.clickhouse.metrics import ClickHouseMetrics
from headrace_pm.clickhouse.seen import FileRows, seen_files, seen_lag
from headrace_pm.clickhouse.settings import ClickHouseSettings
from headrace_pm.clickhouse.statements import ddl_statements
from headrace_pm.clickhouse.tables import check_tables
from headrace_pm.counters.row_digest import batch_digest
from headrace_pm.kafka.forms import RecordForm
from headrace_pm.kafka.producer import open_producer
from headrace_pm.kafka.records import BatchRecords, FileRevision, json_records, row_binary_record
from headrace_pm.kafka.row_binary import COLUMNS
from headrace_pm.kafka.sink import KafkaSink


async def test_both_forms_become_the_same_rows_and_are_seen(kafka_topic: str, clickhouse_database: str) -> None:
    settings, other = settings_of(kafka_topic, clickhouse_database), FileRevision(8, "B.bin", 1, 42, 1)
    async with connected(settings) as clickhouse:
        async with running(settings, clickhouse), open_producer(settings) as producer:
            checkpoints = [MemoryCheckpoints(), MemoryCheckpoints(epoch=1)]
            sent = [
                await KafkaSink(producer, checkpoints[0], RecordForm.JSON).write(FILE, file_batches(3)),
                await KafkaSink(producer, checkpoints[1], RecordForm.ROW_BINARY).write(
                    other, file_batches(3, ne_id=12)
                ),
            ]
            wanted = ordered(
                truth(map(batch_of, range(3))) + truth([batch_of(each, ne_id=12) for each in range(3)], other.version)
            )
            await all_in(clickhouse, wanted)
        files = [FileRows(41, sent[0].rows, sent[0].digest), FileRows(42, sent[1].rows, sent[1].digest)]
        seen = await seen_files(clickhouse, [41, 42, 43])
        assert seen == {file.version: file for file in files}
        assert seen_lag(files, seen).late == seen_lag(files, seen).different == ()
        lag = seen_lag([*files, FileRows(43, 5, 1), FileRows(42, 60, 1)], seen)
        assert (lag.missing_rows, lag.late, lag.different) == (5, (43,), (42,))
    assert committed(settings).offset == 60 + 3


async def test_what_producers_repeat_counts_once_and_a_newer_version_wins(
    kafka_topic: str, clickhouse_database: str
) -> None:
    settings, newer = settings_of(kafka_topic, clickhouse_database), FileRevision(7, FILE.name, 3, 50, 4)
    put(kafka_topic, row_binary_record(newer, batch_of(0, value=9.5)))
    put(kafka_topic, row_binary_record(FILE, batch_of(0)), json_records(FILE, batch_of(0)))
    async with connected(settings) as clickhouse, running(settings, clickhouse) as consumer:
        await eventually(lambda: consumer._metrics.rows._value.get() == 60, "all copies were written", PATIENCE_S)
        assert await table_rows(clickhouse) == truth([batch_of(0, value=9.5)], version=50)


async def test_a_block_that_was_planned_is_repeated_as_it_was(kafka_topic: str, clickhouse_database: str) -> None:
    """A member wrote a block and died before it committed: records came after, and the block is cut where it was."""
    settings = settings_of(kafka_topic, clickhouse_database)
    put(kafka_topic, *(row_binary_record(FILE, batch_of(number)) for number in range(3)))
    async with connected(settings) as clickhouse:
        async with running(settings, clickhouse):
            await all_in(clickhouse, truth(map(batch_of, range(3))))
        assert committed(settings).offset == 3
        rewind(settings, TopicPartition(settings.kafka_topic, 0, 0, plan_text(3)))
        put(kafka_topic, row_binary_record(FILE, batch_of(3)))
        async with running(settings, clickhouse):
            await all_in(clickhouse, truth(map(batch_of, range(4))))
        assert await raw_count(clickhouse) == 80, "no row was written twice"


class DyingClient(ClickHouse):
    """The process ends before its block is written, or before it knows that it was."""

    def __init__(self, settings: ClickHouseSettings, writes: bool) -> None:
        super().__init__(settings)
        self._writes = writes

    async def insert_block(self, table: str, form: str, block: bytes, token: str) -> None:
        if self._writes:
            await super().insert_block(table, form, block, token)
        raise SystemError("killed")


async def killed_member(settings: ClickHouseSettings, writes: bool, kind: type[TopicConsumer] = TopicConsumer) -> None:
    dying = DyingClient(settings, writes)
    with pytest.raises(SystemError):
        await kind(settings, dying, ClickHouseMetrics(CollectorRegistry())).run(asyncio.Event())
    await dying.close()


@pytest.mark.parametrize("writes", [False, True])
async def test_a_member_that_dies_around_an_insert_loses_and_doubles_nothing(
    kafka_topic: str, clickhouse_database: str, writes: bool
) -> None:
    settings = settings_of(kafka_topic, clickhouse_database)
    put(kafka_topic, *(row_binary_record(FILE, batch_of(number)) for number in range(3)))
    async with connected(settings) as clickhouse:
        await killed_member(settings, writes)
        assert committed(settings).offset == 0
        put(kafka_topic, row_binary_record(FILE, batch_of(3)))
        async with running(settings, clickhouse):
            await all_in(clickhouse, truth(map(batch_of, range(4))))
        assert await raw_count(clickhouse) == 80


class CommitsFirst(TopicConsumer):
    """The twin: the group goes on behind a block that is not written yet."""

    async def _commit(self, block: Block, offset: int, end: int) -> None:
        await super()._commit(block, end, end)


async def test_a_block_that_is_committed_before_it_is_in_would_be_lost(
    kafka_topic: str, clickhouse_database: str
) -> None:
    settings = settings_of(kafka_topic, clickhouse_database)
    put(kafka_topic, row_binary_record(FILE, batch_of(0)))
    async with connected(settings):
        await killed_member(settings, False, CommitsFirst)
        assert committed(settings).offset == 1


async def test_without_a_plan_the_same_records_are_written_twice(kafka_topic: str, clickhouse_database: str) -> None:
    """The twin: the end of a block is where reading happened to stop."""
    settings = settings_of(kafka_topic, clickhouse_database)
    put(kafka_topic, *(row_binary_record(FILE, batch_of(number)) for number in range(3)))
    async with connected(settings) as clickhouse:
        async with running(settings, clickhouse):
            await all_in(clickhouse, truth(map(batch_of, range(3))))
        rewind(settings, TopicPartition(settings.kafka_topic, 0, 0))
        put(kafka_topic, row_binary_record(FILE, batch_of(3)))
        async with running(settings, clickhouse):
            await all_in(clickhouse, truth(map(batch_of, range(4))))
        assert await raw_count(clickhouse) > 80


async def test_a_server_that_takes_nothing_for_a_while_gets_the_same_block_again(
    kafka_topic: str, clickhouse_database: str, clickhouse_server: ClickHouseServer
) -> None:
    """TOO_MANY_PARTS is no fault of the block: nothing is halved, nothing set aside."""
    settings = settings_of(kafka_topic, clickhouse_database)
    put(kafka_topic, *(row_binary_record(FILE, batch_of(number)) for number in range(3)))
    async with connected(settings) as clickhouse:
        clickhouse_server.refuse_blocks(4)
        async with running(settings, clickhouse) as consumer:
            await all_in(clickhouse, truth(map(batch_of, range(3))))
            metrics = consumer._metrics
            assert (metrics.failed._value.get(), metrics.refused._value.get()) == (4, 0)
        assert await raw_count(clickhouse) == 60
        assert await clickhouse.rows("SELECT 1 FROM pm_dead_message") == []


async def test_an_answer_that_is_lost_writes_no_row_twice(
    kafka_topic: str, clickhouse_database: str, fault_proxy: Callable[[str], Proxy]
) -> None:
    proxy = fault_proxy(clickhouse_database)
    settings = settings_of(kafka_topic, proxy.url)
    put(kafka_topic, *(row_binary_record(FILE, batch_of(number)) for number in range(3)))
    async with connected(settings) as clickhouse:
        proxy.cut_reply_to(b"mobility")
        async with running(settings, clickhouse):
            await all_in(clickhouse, truth(map(batch_of, range(3))))
        assert proxy.cuts == 1
        assert await raw_count(clickhouse) == 60


class Tokenless(ClickHouse):
    """The twin: every insert has a token of its own."""

    async def insert_block(self, table: str, form: str, block: bytes, token: str) -> None:
        await super().insert_block(table, form, block, f"{token}:{secrets.token_hex(4)}")


async def test_without_tokens_a_repeated_block_would_be_written_twice(
    kafka_topic: str, clickhouse_database: str
) -> None:
    settings = settings_of(kafka_topic, clickhouse_database)
    put(kafka_topic, row_binary_record(FILE, batch_of(0)))
    async with connected(settings) as clickhouse:
        await killed_member(settings, writes=True)
        twin = Tokenless(settings)
        async with running(settings, twin) as consumer:
            await eventually(lambda: consumer._metrics.rows._value.get() == 20, "it is answered", PATIENCE_S)
        assert await raw_count(clickhouse) == 40
        await twin.close()


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (252, "Too many parts (300)", Busy),
        (252, "Too many partitions for single INSERT block (more than 100)", BlockRefused),
        (469, "Constraint `positive` is violated", BlockRefused),
        (241, "Memory limit exceeded", Busy),
        (164, "Cannot execute query in readonly mode", Busy),
        (60, "Table does not exist", SchemaMismatch),
    ],
)
def test_only_what_a_block_holds_counts_against_it(code: int, text: str, kind: type[HeadraceError]) -> None:
    assert type(meaning(DatabaseError(text, code=code))) is kind
    assert type(meaning(OperationalError("connection reset"))) is Unknown


async def test_poison_is_set_aside_with_its_reason_and_the_rest_goes_on(
    kafka_topic: str, clickhouse_database: str
) -> None:
    settings = settings_of(kafka_topic, clickhouse_database)
    good = [row_binary_record(FILE, batch_of(number)) for number in range(4)]
    damaged = BatchRecords(good[3].key, (good[3].values[0][:-1],), good[3].headers)
    put(kafka_topic, good[0], BatchRecords(b"11", (b"\xff\xfe",)), good[1], BatchRecords(b"11", (b'{"a":1}',)))
    put(kafka_topic, damaged, good[2])
    async with connected(settings) as clickhouse:
        async with running(settings, clickhouse):
            await all_in(clickhouse, truth(map(batch_of, range(3))))
        dead = await clickhouse.rows("SELECT offset, reason, file, batch FROM pm_dead_message FINAL ORDER BY offset")
    assert [row[0] for row in dead] == [1, 3, 4]
    for row, words in zip(dead, ("form is unknown", "ne_id", "has CRC"), strict=True):
        assert words in row[1]
    assert dead[2][2:] == (FILE.name, "3")
    assert committed(settings).offset == 6


async def test_a_refused_block_is_halved_down_to_the_poison(kafka_topic: str, clickhouse_database: str) -> None:
    """What ClickHouse itself refuses is found among the others."""
    settings = settings_of(kafka_topic, clickhouse_database)
    bad = batch_of(5, value=-1.0)
    put(kafka_topic, *(row_binary_record(FILE, batch_of(number)) for number in range(5)))
    put(kafka_topic, row_binary_record(FILE, bad), *(row_binary_record(FILE, batch_of(each)) for each in range(6, 9)))
    async with connected(settings) as clickhouse:
        await clickhouse.command(
            "ALTER TABLE pm_counter_data ADD CONSTRAINT positive CHECK ifNull(counter_value, 0) >= 0"
        )
        async with running(settings, clickhouse):
            await all_in(clickhouse, truth([batch_of(number) for number in range(9) if number != 5]))
        assert await raw_count(clickhouse) == 160
        [[offset, reason, batch]] = await clickhouse.rows("SELECT offset, reason, batch FROM pm_dead_message FINAL")
    assert (offset, batch) == (5, "5")
    assert "positive" in reason
    assert committed(settings).offset == 9


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ALTER TABLE pm_counter_data DROP COLUMN cell_index", "cell_index is missing"),
        ("ALTER TABLE pm_counter_data MODIFY COLUMN extra_field Nullable(String)", "extra_field is Nullable"),
        ("DROP TABLE pm_counter_data", "no table"),
    ],
)
async def test_a_table_that_does_not_fit_is_told_and_nothing_is_set_aside(
    kafka_topic: str, clickhouse_database: str, change: str, words: str
) -> None:
    settings = settings_of(kafka_topic, clickhouse_database)
    put(kafka_topic, row_binary_record(FILE, batch_of(0)))
    async with connected(settings) as clickhouse:
        await change_table(clickhouse, change)
        with pytest.raises(SchemaMismatch, match=words):
            await TopicConsumer(settings, clickhouse, ClickHouseMetrics(CollectorRegistry())).run(asyncio.Event())
        assert await clickhouse.rows("SELECT 1 FROM pm_dead_message") == []
    assert committed(settings).offset < 0


async def test_a_table_that_is_changed_meanwhile_is_not_misread(kafka_topic: str, clickhouse_database: str) -> None:
    settings = settings_of(kafka_topic, clickhouse_database)
    put(kafka_topic, row_binary_record(FILE, batch_of(0)))
    async with connected(settings) as clickhouse:
        with pytest.raises(ExceptionGroup) as ended:
            async with running(settings, clickhouse) as consumer:
                await all_in(clickhouse, truth([batch_of(0)]))
                await change_table(clickhouse, "ALTER TABLE pm_counter_data MODIFY COLUMN cell_index Int32")
                put(kafka_topic, row_binary_record(FILE, batch_of(1)))
                await eventually(lambda: not consumer.partitions, "it has ended", PATIENCE_S)
        assert ended.group_contains(SchemaMismatch, match="cell_index is Int32")
        assert await raw_count(clickhouse) == 20
        assert await clickhouse.rows("SELECT 1 FROM pm_dead_message") == []


async def test_a_table_without_versions_is_refused(clickhouse_database: str) -> None:
    async with connected(settings_of(clickhouse=clickhouse_database)) as clickhouse:
        await clickhouse.command("DROP TABLE pm_counter_data")
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        await clickhouse.command(f"CREATE TABLE pm_counter_data ({columns}) ENGINE = MergeTree ORDER BY ne_id")
        with pytest.raises(SchemaMismatch, match="is a MergeTree and no ReplacingMergeTree"):
            await check_tables(clickhouse)


async def test_members_share_the_partitions_and_one_that_leaves_is_replaced(
    kafka_server: KafkaServer, kafka_topic: str, clickhouse_database: str
) -> None:
    with kafka_server.topic(partitions=4) as topic_url:
        settings = settings_of(topic_url, clickhouse_database)
        batches = [batch_of(number, ne_id=number) for number in range(12)]
        async with connected(settings) as clickhouse, running(settings, clickhouse) as first:
            await eventually(lambda: len(first.partitions) == 4, "one has all", PATIENCE_S)
            async with running(settings, clickhouse) as second:
                await eventually(lambda: len(second.partitions) == 2, "both have two", PATIENCE_S)
                await asyncio.to_thread(put, topic_url, *(row_binary_record(FILE, each) for each in batches[:8]))
                await all_in(clickhouse, truth(batches[:8]))
            await eventually(lambda: len(first.partitions) == 4, "one has all again", PATIENCE_S)
            await asyncio.to_thread(put, topic_url, *(row_binary_record(FILE, each) for each in batches[8:]))
            await all_in(clickhouse, truth(batches))
            assert await raw_count(clickhouse) == 240


async def test_a_partition_that_was_lost_while_it_was_paused_goes_on_when_it_comes_back(
    kafka_topic: str,
    clickhouse_database: str,
    clickhouse_server: ClickHouseServer,
    fault_proxy: Callable[[str], Proxy],
) -> None:
    """ClickHouse takes nothing, so partitions are paused; then the broker is away for longer than a session lasts."""
    proxy = fault_proxy(kafka_topic)
    settings = settings_of(proxy.url, clickhouse_database)
    async with connected(settings) as clickhouse, running(settings, clickhouse) as consumer:
        await eventually(lambda: consumer.partitions, "it has its partition", PATIENCE_S)
        clickhouse_server.refuse_blocks(1_000_000)
        await asyncio.to_thread(put, kafka_topic, *(row_binary_record(FILE, batch_of(each)) for each in range(4)))
        await eventually(lambda: consumer._metrics.waiting._value.get() == 1, "it waits", PATIENCE_S)
        proxy.black_hole()
        await eventually(lambda: not consumer.partitions, "its session is over", PATIENCE_S)
        proxy.heal()
        proxy.reset()
        clickhouse_server.refuse_blocks(0)
        await all_in(clickhouse, truth(map(batch_of, range(4))))
        assert await raw_count(clickhouse) == 80


async def view_rows(clickhouse: ClickHouse, statements: list[str], form: str, block: bytes) -> list[Row]:
    """What the views of the Kafka engine make of records. chDB has no such engine: a table that keeps nothing takes its
    place, with the columns that the engine adds."""
    queue = statements[2].partition("ENGINE = Kafka")[0].rstrip().removesuffix(")")
    added = "_error String, _topic String, _partition UInt64, _offset UInt64, _key String, _raw_message String"
    await clickhouse.command(f"{queue}, {added}, _headers Nested(name String, value String)) ENGINE = Null")
    for each in statements[3:]:
        await clickhouse.command(each)
    columns = f"({', '.join(COLUMNS)})"
    await clickhouse.insert_block(f"pm_counter_queue {columns}", form, block, "")
    return await table_rows(clickhouse)


@pytest.mark.parametrize("form", list(RecordForm))
async def test_the_views_of_the_kafka_engine_make_the_same_rows(clickhouse_database: str, form: RecordForm) -> None:
    settings, batch = settings_of(clickhouse=clickhouse_database), batch_of(0)
    forms: dict[RecordForm, tuple[str, bytes]] = {
        RecordForm.JSON: ("JSONEachRow", b"\n".join(json_records(FILE, batch).values)),
        RecordForm.ROW_BINARY: ("RowBinary", row_binary_record(FILE, batch).values[0]),
    }
    async with connected(settings) as clickhouse:
        statements = ddl_statements(settings, form)
        found: Any = await view_rows(clickhouse, statements, *forms[form])
        assert found == truth([batch])
        [seen] = (await seen_files(clickhouse, [FILE.version])).values()
        assert seen.digest == batch_digest(batch)
