"""kill -9 at every step of a file × each sink away × Redis empty: both sinks have the truth, row for row."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import cycle, islice, product
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from pm_mortal import Point, live
from pm_pipeline_world import PipelineServers, PipelineWorld, table_values, topic_values, true_values
from waiting import eventually

from headrace.testing.rig.redis import RedisServer
from headrace_pm.network.generated_folder import FolderPlan

# In torture all of them; else a choice in which every step and every trouble comes.
TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
STEPS = (
    "files_insert",
    "claim_take",
    "file_downloaded",
    "file_parsed",
    "counters_upsert",
    "sink_advance",
    "file_mysql_done",
    "file_kafka_done",
    "file_done",
    "moves_take",
    "moves_judge",
)
# Of all files of a life in one transaction; there is no second one.
TOGETHER = ("files_insert", "moves_take", "moves_judge")
AWAY = ("kafka away", "table locked")
TROUBLES = ("none", "redis empty", *AWAY)
FILES_EACH = 2
# One that does not come to its point, because a sink is away, is killed then.
POINT_S_MAX, AWAY_S_MAX = 60.0, 4.0
LOCK = "LOCK TABLES pm_counter_data WRITE"


@dataclass(frozen=True)
class Case:
    when: str
    step: str
    trouble: str
    times: int


def cases() -> list[Case]:
    if TIMES > 1:
        every = product(("before", "after"), STEPS, TROUBLES)
        return [Case(*each, 1 if each[1] in TOGETHER else 1 + number % 2) for number, each in enumerate(every)]
    whens, troubles = cycle(("after", "before", "before")), cycle(("none", "kafka away", "none", "redis empty"))
    chosen = [Case(*each, 1) for each in zip(whens, STEPS, troubles, strict=False)]
    return [*islice(chosen, 0, None, 2), Case("before", "file_kafka_done", "table locked", 1)]


class Lives:
    """Processes of one pipeline, one after the other."""

    def __init__(self, world: PipelineWorld) -> None:
        self.world = world
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["pm_mortal", "headrace_pm.kafka.sink", "pymysql", "prometheus_client"])

    @contextmanager
    def life(self, point: Point, is_hasty: bool = False, **variables: str) -> Iterator[ForkServerProcess]:
        world = self.world
        quick = {"PM_LEASE_S": "10", "PM_BATCH": "200", "PM_SINK_WAIT_S": "1", "PM_RECOVER_INTERVAL_S": "60"}
        environment = {**world.servers.variables(world.home / "spool"), **quick, **variables}
        process = self._context.Process(target=live, args=(environment, point, str(world.home / "log"), is_hasty))
        process.start()
        try:
            yield process
        finally:
            process.kill()
            process.join()


@contextmanager
def table_locked(world: PipelineWorld) -> Iterator[None]:
    """Somebody has the table of counters: rows wait, and everything else goes on."""
    database = world.servers.database.rpartition("/")[2]
    with closing(world.servers.mariadb.connect(database)) as connection, connection.cursor() as cursor:
        cursor.execute(LOCK)
        yield


async def died(process: ForkServerProcess, trouble: str) -> bool:
    """Whether it died by itself, in time."""
    patience_s = AWAY_S_MAX if trouble in AWAY else POINT_S_MAX
    try:
        await eventually(lambda: not process.is_alive(), "it dies", patience_s, otherwise=TimeoutError)
    except TimeoutError:
        return False
    return True


async def test_no_kill_loses_or_doubles_a_row(
    pipeline_servers: PipelineServers, redis_server: RedisServer, tmp_path: Path
) -> None:
    every = cases()
    plan = FolderPlan(files=len(every) * FILES_EACH, counters=2_300, seed=8, packed=len(every))
    world = PipelineWorld(pipeline_servers, tmp_path, plan)
    await world.prepare()
    lives, fired = Lives(world), set[Case]()
    for number, case in enumerate(every):
        point = Point(case.when, case.step, case.times)
        away = {"PM_KAFKA_BOOTSTRAP": "127.0.0.1:9"} if case.trouble == "kafka away" else {}
        with lives.life(point, **away) as process:
            world.upload(which=slice(number * FILES_EACH, (number + 1) * FILES_EACH))
            if case.trouble == "table locked":
                with table_locked(world):
                    fired |= {case} if await died(process, case.trouble) else set()
            elif await died(process, case.trouble):
                fired.add(case)
        if case.trouble == "redis empty":
            redis_server.empty()
        # The holds of the dead run out; on a busy machine short ones would be lost by the living, too.
        world.query("UPDATE pm_file_claim SET until = UTC_TIMESTAMP(6) WHERE owner IS NOT NULL")
        ended = (number + 1) * FILES_EACH
        with lives.life(Point()):
            await eventually(
                lambda ended=ended: world.are_ended(ended, 0), lambda case=case: f"{case}\n{world.shown()}"
            )
    missed = {case for case in every if case.trouble not in AWAY} - fired
    assert not missed, "a fault that did not happen proves nothing"
    truth = true_values(world.truth())
    assert table_values(pipeline_servers.database) == truth
    assert topic_values(pipeline_servers.topic_url) == truth
    assert world.query("SELECT SUM(retry_count) FROM file_processing_state") == [(0,)], "a kill spends no attempt"
    assert world.left() == set()


async def test_a_checkpoint_before_its_rows_is_noticed(pipeline_servers: PipelineServers, tmp_path: Path) -> None:
    """The twin: killed between the two, the rows are in no sink, and everything else looks well."""
    world = PipelineWorld(pipeline_servers, tmp_path, FolderPlan(files=FILES_EACH, counters=2_300, seed=9))
    await world.prepare()
    lives = Lives(world)
    with lives.life(Point("before", "counters_upsert"), is_hasty=True) as process:
        world.upload()
        assert await died(process, "none")
    world.query("UPDATE pm_file_claim SET until = UTC_TIMESTAMP(6) WHERE owner IS NOT NULL")
    with lives.life(Point()):
        await eventually(lambda: world.are_ended(FILES_EACH, 0), world.shown)
    found, truth = table_values(pipeline_servers.database), true_values(world.truth())
    assert set(found) < set(truth), "the comparison of the kill test sees what is missing"
    assert topic_values(pipeline_servers.topic_url) == truth
