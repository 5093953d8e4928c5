"""Rows and files that others insert, reset and move while two processes work on them: each ends, and says how."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from pm_pipeline_world import PATH, PipelineServers, PipelineWorld, table_values, topic_values, true_values
from waiting import eventually

from headrace.testing.rig.kafka import KafkaServer
from headrace_pm.network.generated_folder import FolderPlan

PLAN = FolderPlan(files=16, counters=400, seed=11, unknown=1)
HIDDEN = "/Elsewhere/"
ADD = (
    "INSERT INTO file_processing_state (system_type, ftp_server_key, ftp_path, file_name, state)"
    " VALUES ('5GA', '{}', '{}', '{}', 'PENDING')"
)


def state_of(world: PipelineWorld, name: str, path: str = PATH) -> tuple[str, int, str]:
    found = world.query(
        "SELECT state, retry_count, COALESCE(error_message, '') FROM file_processing_state"
        f" WHERE file_name = '{name}' AND ftp_path = '{path}'"
    )
    return found[0] if found else ("", 0, "")


async def test_rows_of_others_are_worked_on_by_two_processes_and_none_twice(
    pipeline_servers: PipelineServers, kafka_server: KafkaServer, tmp_path: Path
) -> None:
    """A second topic has what is in the table, for those who waited for the old flow."""
    with kafka_server.topic() as after_url:
        world = PipelineWorld(pipeline_servers, tmp_path, PLAN)
        await world.prepare()
        await worked_on(world, after_url)


def waits(world: PipelineWorld, name: str, words: str) -> bool:
    """Between two tries, of which the last one failed for this reason."""
    state, _retries, why = state_of(world, name, HIDDEN)
    return state == "PENDING" and words in why


async def worked_on(world: PipelineWorld, after_url: str) -> None:
    pipeline_servers, tmp_path = world.servers, world.home
    key = f"127.0.0.1_{pipeline_servers.ftp.port}_rig"
    hidden = pipeline_servers.ftp.files / HIDDEN.strip("/")
    (hidden / "ClickHouse").mkdir(parents=True)
    names = sorted(path.name for path in world.made.iterdir())
    stranger = next(name for name in names if "Stranger" in name)
    names.remove(stranger)
    # Nobody looks at this folder: rows by hand are all that leads there. The old system has moved one of its files.
    by_hand, moved_away, *usual = names
    shutil.copyfile(world.made / by_hand, hidden / by_hand)
    shutil.copyfile(world.made / moved_away, hidden / "ClickHouse" / moved_away)
    for name in (by_hand, moved_away, "nowhere.dat"):
        world.query(ADD.format(key, HIDDEN, name))
    # A server that nobody can log in to, and one that no table has.
    world.query(
        "INSERT INTO ftp_server (system_type, host, port, user_name, password_ref)"
        f" VALUES ('5GA', '127.0.0.1', {pipeline_servers.ftp.port}, 'other', 'env:NOT_SET')"
    )
    locked = f"127.0.0.1_{pipeline_servers.ftp.port}_other"
    world.query(ADD.format(locked, HIDDEN, "locked.dat"))
    world.query(ADD.format("gone_21_nobody", HIDDEN, "homeless.dat"))
    # Two at a time, and nothing before both are there: else the first may have taken all.
    after = {"PM_KAFKA_TOPIC_AFTER_MYSQL": urlsplit(after_url).path.lstrip("/"), "PM_FILES_PARALLEL": "2"}
    second = {**after, "PM_SPOOL_DIR": str(tmp_path / "spool2")}
    async with world.service("all", **after) as one, world.service("all", "log2", **second) as other:
        for path in world.made.iterdir():
            if path.name in (*usual, stranger):
                shutil.copyfile(path, world.folder / path.name)
        await eventually(lambda: world.are_ended(len(names), 2), world.shown)
        assert state_of(world, "nowhere.dat", HIDDEN)[0] == "ERROR"
        assert state_of(world, "nowhere.dat", HIDDEN)[2].startswith("vanished: ")
        unknown = state_of(world, stranger)[2]
        assert unknown.startswith("Unknown NE: ")
        for name, words in (("locked.dat", "env:NOT_SET"), ("homeless.dat", "gone_21_nobody")):
            await eventually(lambda name=name, words=words: waits(world, name, words), world.shown)
            assert state_of(world, name, HIDDEN)[1] == 0, "it spends no attempt"
        assert (hidden / "ClickHouse" / "Done" / moved_away).exists()
        # A dictionary that knows the element brings its file back; a row that was reset is fetched from the archive.
        taken = Counter(each.path for each in pipeline_servers.ftp.transfers() if each.command == "RETR")
        assert [path for path, times in taken.items() if times > 1] == [], "each file was fetched once, by one of both"
        world.query(f"DELETE FROM pm_counter_data WHERE version = {version_of(world, usual[0])}")
        world.query(f"INSERT INTO ne (name) VALUES ('{unknown.removeprefix('Unknown NE: ')}')")
        world.query(
            "UPDATE file_processing_state SET state = 'PENDING', retry_count = 0, mysql_processed = FALSE,"
            f" clickhouse_processed = FALSE WHERE file_name = '{usual[0]}'"
        )
        await eventually(lambda: state_of(world, stranger)[0] == state_of(world, usual[0])[0] == "MOVED", world.shown)
        assert (one.process.poll(), other.process.poll()) == (None, None)
    truth = true_values(world.truth())
    element = world.query("SELECT MAX(id) FROM ne")[0][0]
    topics = [topic_values(url) for url in (pipeline_servers.topic_url, after_url)]
    for found in (table_values(pipeline_servers.database), *topics):
        assert {row: values for row, values in found.items() if row.ne_id != element} == truth
        assert [row for row in found if row.ne_id == element], "the file of the new element is there, too"
    done = [
        line for log in ("log", "log2") for line in (tmp_path / log).read_text().splitlines() if "worker.ended" in line
    ]
    assert all("items.done" in line for line in done), "both had their share"


def version_of(world: PipelineWorld, name: str) -> int:
    ((version,),) = world.query(
        "SELECT MAX(version) FROM pm_file_revision JOIN file_processing_state s ON s.id = file_id"
        f" WHERE s.file_name = '{name}'"
    )
    return int(version)
