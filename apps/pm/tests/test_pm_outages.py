"""`pm all` outlives every server that it needs: files wait, no attempt is spent, and work goes on by itself."""

from __future__ import annotations

import asyncio
import os
import time
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

from pm_pipeline_world import PipelineServers, PipelineWorld, table_values, topic_values, true_values
from waiting import eventually

from headrace.testing.rig.kafka import KafkaServer
from headrace.testing.rig.redis import RedisServer
from headrace_pm.network.generated_folder import FolderPlan

PLAN = FolderPlan(files=20, counters=1_200, seed=5, packed=20)
STOP_S_MAX = 30.0
# At full size (HEADRACE_TORTURE=100) Kafka is away for a whole minute, and files have asked for it again and again.
AWAY_S = 60.0 if int(os.environ.get("HEADRACE_TORTURE", "1")) > 1 else 0.0


def ready(url: str) -> str:
    """What `/readyz` says."""
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=10.0) as answer:
            return str(answer.read().decode())
    except HTTPError as error:
        return str(error.read().decode())


async def test_a_service_outlives_each_of_its_servers(
    pipeline_servers: PipelineServers, redis_server: RedisServer, kafka_server: KafkaServer, tmp_path: Path
) -> None:
    world = PipelineWorld(pipeline_servers, tmp_path, PLAN)
    await world.prepare()
    service = world.service("all")
    try:
        url = await service.ready()
        uploaded: list[str] = []

        async def taken(first: int) -> None:
            uploaded.extend(world.upload(which=slice(first, first + 4)))
            await eventually(lambda: world.are_ended(len(uploaded), 0), world.shown, 90.0)

        await taken(0)
        # Kafka: the table has the rows and says so, and the files wait for the other sink only.
        away_since = time.monotonic()
        await asyncio.to_thread(kafka_server.stop)
        names = world.upload(which=slice(4, 8))
        uploaded.extend(names)
        await eventually(
            lambda: world.counts(names, "mysql_processed AND NOT clickhouse_processed AND state = 'PARTIAL_DONE'") == 4,
            world.shown,
        )
        await eventually(
            lambda: world.counts(names, "error_message LIKE 'kafka is away%'") > 0, "the rows say why they wait"
        )
        assert '"sink_kafka":{"ok":false' in ready(url)
        await eventually(lambda: time.monotonic() >= away_since + AWAY_S, "it is away for long", AWAY_S + 60.0)
        assert world.counts(names, "retry_count = 0 AND state = 'PARTIAL_DONE'") == 4, world.shown()
        unpacked = tmp_path / "spool"
        await eventually(lambda: not list(unpacked.glob("*.plain")), "what waits is not kept unpacked")
        await asyncio.to_thread(kafka_server.start)
        await eventually(lambda: world.are_ended(8, 0), world.shown, 90.0)
        # Redis: the table answers.
        await asyncio.to_thread(redis_server.stop)
        await taken(8)
        await asyncio.to_thread(redis_server.start)
        # The FTP server, and the database with everything that is in hand.
        await asyncio.to_thread(pipeline_servers.ftp.stop)
        await asyncio.to_thread(pipeline_servers.ftp.start)
        await taken(12)
        uploaded.extend(world.upload(which=slice(16, 18)))
        await asyncio.to_thread(pipeline_servers.mariadb.kill)
        uploaded.extend(world.upload(which=slice(18, 20)))
        failing = '"loop_scan":{"ok":false'
        await eventually(lambda: failing in ready(url), "the loops say that they fail")
        await asyncio.to_thread(pipeline_servers.mariadb.start)
        await eventually(lambda: world.are_ended(20, 0), world.shown, 90.0)
        assert service.process.poll() is None, "it is the same process"
        await eventually(lambda: '"ok"' in ready(url), lambda: ready(url))
        assert world.counts(uploaded, "retry_count") == 0, "an outage spends no attempt"
        truth = true_values(world.truth())
        assert table_values(pipeline_servers.database) == truth
        assert topic_values(pipeline_servers.topic_url) == truth
        began = time.monotonic()
        assert await asyncio.to_thread(service.stop) == 0
        assert time.monotonic() - began < STOP_S_MAX
    finally:
        service.kill()


async def test_a_service_ends_in_time_while_nothing_answers(
    pipeline_servers: PipelineServers, kafka_server: KafkaServer, tmp_path: Path
) -> None:
    world = PipelineWorld(pipeline_servers, tmp_path, FolderPlan(files=6, counters=60_000, seed=6))
    await world.prepare()
    service = world.service("all", PM_SINK_WAIT_S="60")
    try:
        await service.ready()
        await asyncio.to_thread(kafka_server.pause)
        world.upload()
        await eventually(lambda: sum(world.states().values()) == 6 and "PENDING" not in world.states(), world.shown)
        await asyncio.to_thread(pipeline_servers.mariadb.pause)
        began = time.monotonic()
        await asyncio.to_thread(service.stop, timeout_s=STOP_S_MAX)
        assert time.monotonic() - began < STOP_S_MAX
        assert service.process.returncode == 0, "it ended in order, and was not killed"
    finally:
        pipeline_servers.mariadb.resume()
        kafka_server.resume()
        service.kill()
