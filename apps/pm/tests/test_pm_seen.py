"""How far ClickHouse is behind Kafka: on a real MariaDB, and chDB behind ClickHouse's own client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from pm_clickhouse_world import connected
from pm_file_world import AGAIN, A, FileWorld, completed, listed, maria_world, register
from prometheus_client import CollectorRegistry

from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.clickhouse.client import ClickHouse
from headrace_pm.clickhouse.seen import seen_files
from headrace_pm.clickhouse.settings import ClickHouseSettings
from headrace_pm.observe.observed_files import ObservedFiles
from headrace_pm.observe.pipeline_metrics import PipelineMetrics
from headrace_pm.observe.seen_in_clickhouse import NEXT_S, SeenInClickHouse, SeenLagNow


@pytest.fixture
async def maria(mariadb_server: MariaServer, mariadb_database: str) -> AsyncIterator[FileWorld]:
    """ClickHouse is beside a real database only."""
    async with maria_world(mariadb_server, mariadb_database) as world:
        yield world


INSERT = "INSERT INTO pm_counter_data VALUES {}"
ROW = "(1, '2026-01-01 00:00:00', 900, {}, 1.5, 'G', '5G', 1, 'abcdefgh', '{{}}', {})"


async def insert(clickhouse: ClickHouse, version: int, rows: int) -> None:
    await clickhouse.command(INSERT.format(", ".join(ROW.format(number, version) for number in range(rows))))


def sent(world: FileWorld, file_id: int, rows: int, digest: int) -> None:
    """What Kafka has of a file, by its checkpoint."""
    world.query(
        f'UPDATE pm_file_sink SET `rows` = {rows}, digest = {digest} WHERE file_id = {file_id} AND sink = "kafka"'
    )


async def test_files_are_late_until_clickhouse_shows_all_of_them(maria: FileWorld, clickhouse_database: str) -> None:
    async with connected(ClickHouseSettings(clickhouse_url=clickhouse_database)) as clickhouse:
        seen = SeenInClickHouse(clickhouse, ObservedFiles(maria.tables))
        assert await seen.look(0.0) == SeenLagNow()
        await register(maria, A)
        first = await completed(maria, b"1")
        sent(maria, first.file_id, 5, 1)
        assert (await seen.look(1.0)).rows == 5
        await insert(clickhouse, first.version, 3)
        lag = await seen.look(60.0)
        assert (lag.files, lag.rows, lag.different) == (1, 2, 0)
        assert lag.oldest_s >= 59.0
        await insert(clickhouse, first.version, 5)
        lag = await seen.look(61.0)
        assert (lag.files, lag.rows, lag.different) == (0, 0, 1), "all rows, and not those that were sent"
        digest = (await seen_files(clickhouse, [first.version]))[first.version].digest
        sent(maria, first.file_id, 5, digest)
        anew = SeenInClickHouse(clickhouse, ObservedFiles(maria.tables))
        assert await anew.look(62.0) == SeenLagNow()


async def test_what_a_newer_revision_replaced_is_not_missed(maria: FileWorld, clickhouse_database: str) -> None:
    async with connected(ClickHouseSettings(clickhouse_url=clickhouse_database)) as clickhouse:
        seen, registry = SeenInClickHouse(clickhouse, ObservedFiles(maria.tables)), CollectorRegistry()
        clock = [0.0]
        metrics = PipelineMetrics(registry, maria.tables, now=lambda: clock[0])
        metrics.watch_clickhouse(seen)
        await register(maria, A, listed("b.dat"))
        held = [await maria.claims().hold(each, "a", 30.0) for each in (await maria.claims().poll(9)).candidates]
        assert len(held) == 2
        maria.query(
            "UPDATE file_processing_state SET state = 'COMPLETED', clickhouse_processed = TRUE,"
            " mysql_processed = TRUE, clickhouse_insert_time = UTC_TIMESTAMP()"
        )
        maria.query("UPDATE pm_file_sink SET `rows` = 7")
        await metrics.read()
        assert registry.get_sample_value("pm_pipeline_seen_lag_files") == 2.0
        assert registry.get_sample_value("pm_pipeline_seen_lag_rows") == 14.0
        maria.query("UPDATE pm_file_revision SET content_hash = REPEAT('x', 16), is_whole = TRUE")
        maria.query("UPDATE pm_file_claim SET owner = NULL, until = NULL, left_as = 'COMPLETED'")
        assert len((await register(maria, AGAIN)).renewed) == 1
        clock[0] = NEXT_S + 1.0
        await metrics.read()
        assert registry.get_sample_value("pm_pipeline_seen_lag_files") == 1.0
        assert registry.get_sample_value("pm_pipeline_seen_lag_seconds") >= NEXT_S
