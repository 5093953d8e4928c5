"""A shadow beside the old system, on real servers: it reads everything, moves nothing, and pm takes over from there."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from urllib.request import urlopen

import pytest
from pm_pipeline_world import PipelineServers, PipelineWorld, table_values, topic_values, true_values
from waiting import eventually

from headrace.errors import OperatorError
from headrace_pm.network.generated_folder import FolderPlan
from headrace_pm.shadow.shadow_tables import COUNTERS, SHARED, shadow_name

FILES = 9
STATE, ROWS = shadow_name("file_processing_state"), shadow_name(COUNTERS)
REVISIONS = shadow_name("pm_file_revision")
COMPLETED = f"SELECT COUNT(*) FROM {STATE} WHERE state = 'COMPLETED'"
QUIET = f"UPDATE {shadow_name('place')} SET changed_at = changed_at - INTERVAL 1 HOUR"
LONG_AGO = 1_500_000_000
Command = Callable[..., CompletedProcess[str]]


class OldSystem:
    """What it does with files on the server: from the folder to ClickHouse/, and from there to Done/."""

    def __init__(self, world: PipelineWorld) -> None:
        self.folder, self.first = world.folder, world.folder / "ClickHouse"
        self.last = self.first / "Done"
        self.last.mkdir(parents=True)

    def take(self, names: list[str], source: Path, target: Path) -> None:
        for name in names:
            (source / name).rename(target / name)

    def places(self) -> list[set[str]]:
        all_three = (self.folder, self.first, self.last)
        return [{path.name for path in place.iterdir() if path.is_file()} for place in all_three]


async def test_a_shadow_reads_what_the_old_system_moves_and_pm_takes_over(
    pipeline_servers: PipelineServers, tmp_path: Path, headrace_command: Command
) -> None:
    world = PipelineWorld(pipeline_servers, tmp_path, FolderPlan(files=FILES, counters=300, seed=5, again=1))
    await world.prepare()
    old = OldSystem(world)
    ancient = old.last / "ancient.dat"
    ancient.write_bytes(b"of another year")
    os.utime(ancient, (LONG_AGO, LONG_AGO))
    (again,) = (path.name for path in (world.beside / "again").iterdir())
    names = sorted(world.upload(), key=again.__ne__)
    # The old system was quicker with two thirds of them than any look could be.
    old.take(names[:3], old.folder, old.last)
    old.take(names[3:6], old.folder, old.first)
    variables = world.servers.variables(tmp_path / "spool")
    own = {"PM_SHADOW_TOPIC": variables["PM_KAFKA_TOPIC"], "PM_KAFKA_TOPIC": "not.touched"}
    before = old.places()
    known = {**variables, **own}
    async with world.service("shadow", **own) as shadow:
        await eventually(lambda: world.query(COMPLETED) == [(FILES,)], world.shown)
        assert old.places() == before, "nothing was renamed or deleted"
        assert world.query("SELECT COUNT(*) FROM file_processing_state") == [(0,)], "production's rows are not touched"
        assert world.query(f"SELECT COUNT(*) FROM {COUNTERS}") == [(0,)]
        assert world.query(f"SELECT COUNT(*) FROM {STATE} WHERE file_name LIKE 'ancient%'") == [(0,)]
        world.upload_again()
        revised = f"{COMPLETED} AND id IN (SELECT file_id FROM {REVISIONS} WHERE revision = 2 AND is_whole)"
        await eventually(lambda: world.query(revised) == [(1,)], world.shown)
        rows = sum(len(path.read_text().splitlines()) for path in world.truths)
        assert f'pm_pipeline_rows_total{{sink="mysql"}} {rows}.0' in _metrics(shadow.url)
        assert topic_values(pipeline_servers.topic_url) == true_values(world.truth())
        await _pm_all_refuses(world)

        found = await _cutover(headrace_command, "--check", **known)
        assert {name for name, state in found.items() if state == "bad"} == {"old system", "rows"}
        # The old system ends its work: its rows are the same, and nothing of it is left half way.
        world.query(f"INSERT INTO {COUNTERS} SELECT * FROM {ROWS}")
        # It has counted its versions in another way, by the clock.
        world.query(f"UPDATE {COUNTERS} SET version = version + 1790000000000")
        assert table_values(pipeline_servers.database) == true_values(world.truth())
        old.take(names[3:6], old.first, old.last)
        looked = f"SELECT COUNT(*) FROM {shadow_name('place')} WHERE place = 'ClickHouse/Done' AND files = 7"
        await eventually(lambda: world.query(looked) == [(1,)], "the shadow saw it")
    assert world.query(f"SELECT MAX(revision), COUNT(*) FROM {REVISIONS}") == [(2, FILES + 1)], "none came for ever"
    rename = f"UPDATE {STATE} SET file_name = '{{}}' WHERE file_name = '{{}}'"
    world.query(rename.format("other.dat", again))
    found = await _cutover(headrace_command, **known)
    assert found == {**dict.fromkeys(found, "ok"), "files": "bad", "old system": "bad"}, "not seen, and not quiet yet"
    assert world.query("SELECT mode FROM pm_cutover") == [("shadow",)]
    world.query(rename.format(again, "other.dat"))
    world.query(QUIET)
    assert set((await _cutover(headrace_command, **known)).values()) == {"ok"}
    await _pm_takes_over(world, old, names, headrace_command)


def _metrics(url: str) -> str:
    with urlopen(f"{url}/metrics") as answer:
        return str(answer.read().decode())


async def _cutover(command: Command, *options: str, **known: str) -> dict[str, str]:
    """How each check ended. It changes over if all are good, and then only."""
    done = await asyncio.to_thread(command, "pm", "cutover", "--from", "2000-01-01", *options, "--json", **known)
    document = json.loads(done.stdout)
    assert (done.returncode == 0) is document["may_change"] is document["changed"]
    return {each["name"]: each["state"] for each in document["checks"]}


async def _pm_all_refuses(world: PipelineWorld) -> None:
    """While the old system is production, nothing of ours moves its files."""
    with pytest.raises(OperatorError, match="has not said"):
        async with world.service("all", "refused.log", PM_SPOOL_DIR=str(world.home / "other")):
            pass
    assert "the old system is production on this database" in (world.home / "refused.log").read_text()


async def _pm_takes_over(world: PipelineWorld, old: OldSystem, names: list[str], command: Command) -> None:
    rows = (json.loads(line) for line in world.truths[0].read_text().splitlines())
    row = next(row for row in rows if row["file"] == names[6])
    key = f"ne_id = {row['ne_id']} AND counter_id = {row['counter_id']}"
    # A file that pm does again replaces its rows, whatever version they have.
    world.query(f"UPDATE {COUNTERS} SET counter_value = -1 WHERE {key}")
    assert table_values(world.servers.database) != true_values(world.truth())
    async with world.service("all", "production.log") as service:
        await eventually(lambda: world.are_ended(4, 0), world.shown)
        assert old.places() == [set(), set(), {*names, f"{names[0]}.rev2", "ancient.dat"}]
        assert table_values(world.servers.database) == true_values(world.truth())
        assert (await asyncio.to_thread(command, "pm", "cutover", "--rollback")).returncode == 0
        await eventually(lambda: service.process.poll() is not None, "it ends by itself")
        assert service.process.returncode == 0
    assert (await asyncio.to_thread(command, "pm", "cutover", "--rollback")).returncode == 4
    modes = [mode for (mode,) in world.query("SELECT mode FROM pm_cutover ORDER BY id")]
    assert modes == ["shadow", "production", "shadow"]


async def test_every_table_of_ours_has_a_shadow_and_those_of_operators_are_shared(
    pipeline_servers: PipelineServers, tmp_path: Path
) -> None:
    from headrace_pm.shadow.service import shadow_settings, shadow_tables_of
    from headrace_pm.tables import PM_TABLES

    async with shadow_tables_of(shadow_settings(pipeline_servers.settings(tmp_path, PM_SHADOW_TOPIC="other"))):
        found = {name for (name,) in pipeline_servers.mariadb.query("SHOW TABLES", _database(pipeline_servers))}
    ours = PM_TABLES.created("mysql") - SHARED
    assert {shadow_name(name) for name in ours} <= found
    assert found >= SHARED
    assert found & ours == set()


def _database(servers: PipelineServers) -> str:
    return servers.database.rpartition("/")[2]


def test_init_makes_what_services_read_and_another_topic_is_asked_for(
    pipeline_servers: PipelineServers, tmp_path: Path, headrace_command: Command
) -> None:
    known = pipeline_servers.variables(tmp_path / "spool")
    assert headrace_command("pm", "init", **known).returncode == 0
    assert pipeline_servers.mariadb.query("SELECT COUNT(*) FROM pm_cutover", _database(pipeline_servers)) == [(0,)]
    assert headrace_command("pm", "cutover", "--rollback", **known).returncode == 4
    same = headrace_command("pm", "shadow", **{**known, "PM_SHADOW_TOPIC": known["PM_KAFKA_TOPIC"]})
    assert same.returncode == 2
    assert "PM_SHADOW_TOPIC is the topic of production" in same.stderr
    # Files that pm has claimed for production have no old system: a shadow would stop pm there, and nothing start it.
    database = _database(pipeline_servers)
    pipeline_servers.mariadb.query("INSERT INTO pm_file_claim (file_id, is_permanent) VALUES (1, FALSE)", database)
    refused = headrace_command("pm", "shadow", **known, PM_SHADOW_TOPIC="beside", PM_HTTP_PORT="0")
    assert "pm is production on this database" in refused.stderr
    assert pipeline_servers.mariadb.query("SELECT COUNT(*) FROM pm_cutover", database) == [(0,)]
