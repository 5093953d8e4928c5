"""How far ClickHouse is behind Kafka: on a real MariaDB, and chDB behind ClickHouse's own client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest
from pm_clickhouse_world import connected
from pm_file_world import AGAIN, A, FileWorld, completed, listed, maria_world, register
from pm_operator_world import operator_tables
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
ROW = "({}, '2026-01-01 00:00:00', 900, {}, 1.5, 'G', '5G', 1, 'abcdefgh', '{{}}', {})"


async def insert(clickhouse: ClickHouse, version: int, numbers: Iterable[int], element: int = 1) -> None:
    rows = (ROW.format(element, number, version) for number in numbers)
    await clickhouse.command(INSERT.format(", ".join(rows)))


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
        await insert(clickhouse, first.version, range(3))
        lag = await seen.look(60.0)
        assert (lag.files, lag.rows, lag.different) == (1, 2, 0)
        assert lag.oldest_s >= 59.0
        await insert(clickhouse, first.version, range(5))
        lag = await seen.look(61.0)
        assert (lag.files, lag.rows, lag.different) == (0, 0, 1), "all rows, and not those that were sent"
        digest = (await seen_files(clickhouse, [first.version]))[first.version].digest
        sent(maria, first.file_id, 5, digest)
        anew = SeenInClickHouse(clickhouse, ObservedFiles(maria.tables))
        assert await anew.look(62.0) == SeenLagNow()


SIGHTINGS = "SELECT version FROM pm_clickhouse_seen ORDER BY version"


async def test_the_moment_of_a_sighting_is_kept_only_if_somebody_looked(
    mariadb_server: MariaServer, mariadb_database: str, clickhouse_database: str
) -> None:
    async with (
        operator_tables(mariadb_database) as tables,
        maria_world(mariadb_server, mariadb_database) as maria,
        connected(ClickHouseSettings(clickhouse_url=clickhouse_database)) as clickhouse,
    ):
        seen = SeenInClickHouse(clickhouse, ObservedFiles(tables), tables)
        files = []
        for name in ("a", "b", "c"):
            await register(maria, listed(f"{name}.dat"))
            files.append(await completed(maria, name.encode()))
        early, late, old = (file.version for file in files)
        for file in files:
            await insert(clickhouse, file.version, range(5), file.version)
            digest = (await seen_files(clickhouse, [file.version]))[file.version].digest
            sent(maria, file.file_id, 5, digest)
        await clickhouse.command("TRUNCATE TABLE pm_counter_data")
        for version, numbers in ((early, (0, 1, 2)), (early, (3, 4)), (old, (0, 1, 2)), (old, (3, 4)), (late, (0, 1))):
            # A block that it has had before, ClickHouse leaves out.
            await insert(clickhouse, version, numbers, version)
        maria.query(
            f"UPDATE file_processing_state SET clickhouse_insert_time = UTC_TIMESTAMP() - INTERVAL 9 MINUTE"
            f" WHERE id IN ({files[1].file_id}, {files[2].file_id})"
        )
        assert (await seen.look(0.0)).files == 1
        assert maria.query(SIGHTINGS) == [(early,)], "one was there before anybody looked, one is not there yet"
        await insert(clickhouse, late, (2, 3, 4), late)
        assert await seen.look(500.0) == SeenLagNow()
        assert maria.query(SIGHTINGS) == sorted([(early,), (late,)]), "it was missed before, so it came just now"
        assert old not in dict(maria.query("SELECT version, 1 FROM pm_clickhouse_seen"))


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
