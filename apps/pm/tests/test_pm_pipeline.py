"""Files from an FTP server into MariaDB, Kafka, ClickHouse and the archive: everything that arrives, row for row."""

from __future__ import annotations

import json
from pathlib import Path

from pm_clickhouse_world import connected, table_rows
from pm_kafka_world import settings_of
from pm_pipeline_world import PipelineServers, PipelineWorld, row_values, table_values, topic_values, true_values
from waiting import eventually

from headrace_pm.network.generated_folder import FolderPlan

PLAN = FolderPlan(files=24, counters=2_500, seed=3, packed=6, half=3, corrupt=3, unknown=2, again=4)
FAILED = PLAN.corrupt + PLAN.unknown
WHOLE = PLAN.files - PLAN.half - FAILED
TIMES = "download_start_time download_end_time parse_start_time parse_end_time mysql_insert_time clickhouse_insert_time"


async def test_everything_that_arrives_is_in_both_sinks_row_for_row(
    pipeline_servers: PipelineServers, clickhouse_database: str, tmp_path: Path
) -> None:
    """Packed, half, corrupt, unknown, and uploaded again; each byte is sent by the server once."""
    world = PipelineWorld(pipeline_servers, tmp_path, PLAN)
    await world.prepare()
    clickhouse_settings = settings_of(pipeline_servers.topic_url, clickhouse_database)
    uploads = [json.loads(line) for line in (world.beside / "files.jsonl").read_text().splitlines()]
    async with world.service("clickhouse", "clickhouse.log", PM_CLICKHOUSE_URL=clickhouse_database):
        async with world.service("all") as service:
            world.upload()
            await eventually(lambda: world.are_ended(WHOLE, FAILED), world.shown)
            world.upload_again()
            await eventually(
                lambda: world.are_ended(WHOLE + PLAN.half, FAILED) and world.left() == world.failed(), world.shown
            )
            assert service.process.poll() is None
        truth = true_values(world.truth())
        assert table_values(pipeline_servers.database) == truth
        assert topic_values(pipeline_servers.topic_url) == truth
        async with connected(clickhouse_settings) as clickhouse:

            async def all_in() -> bool:
                return row_values(await table_rows(clickhouse)) == truth

            await eventually(all_in, "ClickHouse has the same rows")
    sent = [each for each in pipeline_servers.ftp.transfers() if each.command == "RETR"]
    assert sum(each.byte_count for each in sent) == sum(each["bytes"] for each in uploads)
    # A name that came twice has two files in the archive, and both contents are there.
    whole = sorted(each["bytes"] for each in uploads if each["outcome"] == "rows")
    assert sorted(path.stat().st_size for path in world.archived()) == whole
    told = dict(world.query("SELECT file_name, error_message FROM file_processing_state WHERE state = 'ERROR'"))
    unknown = {each["file"]: each["error"] for each in uploads if each["outcome"] == "unknown_ne"}
    assert {name: told[name] for name in unknown} == unknown
    assert all(told.values())
    assert "Traceback" not in service.log.read_text("utf-8"), "what is wrong with a file is no fault of the program"
    ended = [line for line in service.log.read_text("utf-8").splitlines() if "file.ended" in line]
    assert [name for name in told if not any(name in line for line in ended)] == [], "the log names each of them"
    rows = world.query(f"SELECT {TIMES.replace(' ', ', ')}, file_moved_time FROM file_processing_state")
    assert [row for row in rows if row[-1] and None in row] == [], "every time of a file that was moved is filled"
    assert world.query("SELECT COUNT(*) FROM file_processing_state WHERE retry_count > 0 AND state <> 'ERROR'") == [
        (0,)
    ]
    assert list((tmp_path / "spool").glob("*.whole")) == [], "nothing is left in the spool"
