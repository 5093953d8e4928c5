"""`headrace pm clickhouse` as a process: killed at any moment, several at once, its health, its metrics, its tables."""

from __future__ import annotations

import asyncio
import sys
import urllib.request
from pathlib import Path
from subprocess import CompletedProcess
from typing import Protocol

from pm_clickhouse_world import PATIENCE_S, change_table, committed, connected, put, raw_count, table_rows
from pm_kafka_world import FILE, MemoryCheckpoints, batch_of, file_batches, settings_of, truth, variables_of
from waiting import eventually

from headrace.commands import environment_without
from headrace.services import Program
from headrace.testing import ServiceProcess
from headrace.testing.rig.kafka import KafkaServer
from headrace_pm.clickhouse.client import ClickHouse
from headrace_pm.clickhouse.settings import ClickHouseSettings
from headrace_pm.kafka.forms import RecordForm
from headrace_pm.kafka.producer import open_producer
from headrace_pm.kafka.records import row_binary_record
from headrace_pm.kafka.sink import KafkaSink


class Command(Protocol):
    def __call__(self, *arguments: str, **variables: str) -> CompletedProcess[str]: ...


def service(settings: ClickHouseSettings, log: Path) -> ServiceProcess:
    words = (sys.executable, "-m", "headrace", "pm", "clickhouse", "--port", "0")
    environment = {**environment_without("PM_"), **variables_of(settings)}
    return ServiceProcess(Program("pm clickhouse", words, environment), log)


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


async def rows_in(clickhouse: ClickHouse, count: int) -> bool:
    return len(await clickhouse.rows("SELECT 1 FROM pm_counter_data FINAL")) >= count


async def test_members_that_are_killed_lose_and_double_nothing(
    kafka_server: KafkaServer, kafka_topic: str, clickhouse_database: str, tmp_path: Path
) -> None:
    """Two processes share the topic while a file is written to it; both are killed in turn, and one comes back."""
    with kafka_server.topic(partitions=2) as topic_url:
        settings = settings_of(topic_url, clickhouse_database, clickhouse_block_s=0.05)
        files = [file_batches(60, ne_id=ne_id) for ne_id in range(4)]
        async with connected(settings) as clickhouse, open_producer(settings) as producer:
            members = [service(settings, tmp_path / f"log{number}") for number in range(2)]
            for member in members:
                await member.ready()
            sink = [KafkaSink(producer, MemoryCheckpoints(), form) for form in RecordForm]
            writing = asyncio.gather(*(sink[which % 2].write(FILE, each) for which, each in enumerate(files)))
            await eventually(lambda: rows_in(clickhouse, 200), "some rows are in", PATIENCE_S)
            members[0].kill()
            await writing
            members[1].kill()
            async with service(settings, tmp_path / "log2") as last:
                await eventually(lambda: rows_in(clickhouse, 4 * 60 * 20), "all rows are in", PATIENCE_S)
                wanted = truth(batch for each in files for batch in each(0))
                assert await table_rows(clickhouse) == wanted
                assert await raw_count(clickhouse) == len(wanted), "blocks were repeated with their tokens"
                assert last.process.poll() is None


async def test_a_service_says_how_it_is_and_ends_when_asked(
    kafka_topic: str, clickhouse_database: str, tmp_path: Path
) -> None:
    settings = settings_of(kafka_topic, clickhouse_database, clickhouse_block_s=60.0)
    async with connected(settings) as clickhouse:
        put(kafka_topic, *(row_binary_record(FILE, batch_of(number)) for number in range(3)))
        async with service(settings, tmp_path / "log") as running:
            url = await running.ready()
            assert '"ok"' in fetched(f"{url}/readyz")
            lag = f'pm_clickhouse_lag_messages{{partition="0",topic="{settings.kafka_topic}"}} 3.0'
            await eventually(lambda: lag in fetched(f"{url}/metrics"), "it has read and not written", PATIENCE_S)
            assert "pm_clickhouse_rows_total 0.0" in fetched(f"{url}/metrics")
            assert await asyncio.to_thread(running.stop) == 0
        assert await table_rows(clickhouse) == truth(map(batch_of, range(3))), "what it had read was written at the end"
    assert committed(settings).offset == 3


def test_a_table_of_somebody_else_is_told_in_words(
    kafka_topic: str, clickhouse_database: str, headrace_process: Command
) -> None:
    settings = settings_of(kafka_topic, clickhouse_database)

    async def prepare() -> None:
        async with connected(settings) as clickhouse:
            await change_table(clickhouse, "ALTER TABLE pm_counter_data DROP COLUMN cell_index")

    asyncio.run(prepare())
    ended = headrace_process("pm", "clickhouse", "--port", "0", **variables_of(settings))
    assert ended.returncode != 0
    assert "cell_index is missing" in ended.stderr
    assert "headrace pm ddl" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_tables_can_be_read_before_they_are_made(headrace_command: Command) -> None:
    plain = headrace_command("pm", "ddl")
    assert plain.stdout.count("CREATE TABLE") == 2
    engine = headrace_command("pm", "ddl", "--kafka-engine", "rowbinary", PM_KAFKA_TOPIC="o'clock")
    assert "kafka_format = 'RowBinary'" in engine.stdout
    assert "kafka_topic_list = 'o\\'clock'" in engine.stdout
    assert engine.stdout.count("CREATE MATERIALIZED VIEW") == 2
    assert "@" not in engine.stdout


def test_settings_that_cannot_work_are_named(headrace_command: Command) -> None:
    wrong = headrace_command("pm", "ddl", PM_KAFKA_FORM="xml")
    assert wrong.returncode != 0
    assert "PM_KAFKA_FORM" in wrong.stderr
    assert "json or rowbinary" in wrong.stderr
    wrong = headrace_command("pm", "ddl", PM_KAFKA_FORM="", PM_CLICKHOUSE_URL="clickhouse.local:secret")
    assert wrong.returncode != 0
    assert "PM_CLICKHOUSE_URL" in wrong.stderr
    assert "secret" not in wrong.stderr
