"""Files from an FTP server into MariaDB and Kafka and the archive: everything that arrives, row for row."""

from __future__ import annotations

from pathlib import Path

import pytest
from pm_pipeline_world import (
    PipelineServers,
    PipelineWorld,
    table_values,
    topic_values,
    true_values,
)
from waiting import eventually

from headrace.testing.rig.ftp import FtpServer
from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.network.generated_folder import FolderPlan

PLAN = FolderPlan(files=24, counters=2_500, seed=3, packed=6, half=3, corrupt=3, unknown=2, again=4)


@pytest.fixture
def pipeline_servers(
    mariadb_server: MariaServer, mariadb_database: str, redis_database: str, kafka_topic: str, ftp_site: FtpServer
) -> PipelineServers:
    return PipelineServers(mariadb_server, mariadb_database, redis_database, kafka_topic, ftp_site)


async def test_everything_that_arrives_is_in_both_sinks_row_for_row(
    pipeline_servers: PipelineServers, tmp_path: Path
) -> None:
    world = PipelineWorld(pipeline_servers, tmp_path, PLAN)
    await world.prepare()
    world.upload()
    good = PLAN.files - PLAN.half - PLAN.corrupt - PLAN.unknown
    async with world.service("all"):
        await eventually(lambda: world.are_ended(good, PLAN.corrupt + PLAN.unknown), world.shown, 60.0)
        world.upload_again()
        await eventually(
            lambda: world.are_ended(good + PLAN.half, PLAN.corrupt + PLAN.unknown) and not world.waiting_names(),
            world.shown,
            60.0,
        )
    truth = true_values(world.truth())
    assert table_values(pipeline_servers.database) == truth
    assert topic_values(pipeline_servers.topic_url) == truth
