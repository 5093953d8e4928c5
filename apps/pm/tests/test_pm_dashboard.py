"""What is shown and what alerts: every expression, asked of a real Prometheus that scrapes a pipeline's metrics."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, start_http_server
from waiting import until

from headrace.core.claims import Loss
from headrace.sources import HeldItem, ItemSettlement, ItemState
from headrace.tables import open_tables
from headrace.testing.rig.mariadb import MariaServer
from headrace.testing.rig.prometheus import PrometheusServer
from headrace_pm.clickhouse.metrics import ClickHouseMetrics
from headrace_pm.ftp.names import NameFault
from headrace_pm.ftp.scanner import Scanned
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.observe.pipeline_metrics import PipelineMetrics
from headrace_pm.spool.spool import Spool
from headrace_pm.tables import PM_TABLES
from headrace_pm.work.memory import MemoryBreaker

INFRA = Path(__file__).parents[1] / "infra"
RULES = (INFRA / "prometheus" / "pm_rules.yml").read_text()
DASHBOARD = json.loads((INFRA / "grafana" / "dashboards" / "pm_pipeline.json").read_text())
TARGETS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
# What the text asks for, word for word, and how long it must last.
TEXTS = {
    "PmTooManyPendingFiles": ("ALERT: Too many pending files: {{ $value }}", "> 1000", 600),
    "PmTooManyErrorFiles": ("ALERT: Too many error files: {{ $value }}", "> 100", 0),
    "PmFilesStuck": ("ALERT: {{ $value }} files stuck for > 2 hours", "> 0", 0),
}
FILES = (
    "INSERT INTO file_processing_state (system_type, ftp_server_key, ftp_path, file_name, state, created_at)"
    " SELECT '5GA', 'h_21_u', '/a/', CONCAT('{0}', seq), '{0}', UTC_TIMESTAMP() - INTERVAL {2} MINUTE FROM seq_1_to_{1}"
)
DONE = "SELECT MIN(id) FROM file_processing_state"
DONE_SINCE = (
    "UPDATE file_processing_state SET mysql_insert_time = UTC_TIMESTAMP(), clickhouse_insert_time = UTC_TIMESTAMP()"
    " WHERE id = {}",
    "INSERT INTO pm_file_claim (file_id) VALUES ({})",
    "INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at)"
    " VALUES ({}, 1, 1, '', UTC_TIMESTAMP(6) - INTERVAL 9 SECOND)",
)
DATA_S_MAX = 60.0


@dataclass
class GoodLoop:
    last_ok_at: float


@pytest.fixture(scope="module")
def prometheus(mariadb_server: MariaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """It scraped a pipeline before anything happened, and after a backlog, errors and a stuck file had come."""
    registry = CollectorRegistry()
    served, thread = start_http_server(0, "127.0.0.1", registry)
    spool = Spool(tmp_path_factory.mktemp("spool"), 1_000_000).open()
    with (
        mariadb_server.database() as url,
        PrometheusServer(targets=[f"127.0.0.1:{served.server_port}"], rules=[RULES]) as scraped,
    ):
        try:
            asyncio.run(_work(mariadb_server, url, PipelineWorld(registry, spool, scraped)))
            yield scraped
        finally:
            served.shutdown()
            served.server_close()
            thread.join()
            spool.close()


@dataclass
class PipelineWorld:
    registry: CollectorRegistry
    spool: Spool
    scraped: PrometheusServer


async def _work(server: MariaServer, url: str, world: PipelineWorld) -> None:
    async with open_tables(url, PM_TABLES) as tables:
        metrics, unknown = PipelineMetrics(world.registry, tables), [0]
        clickhouse = ClickHouseMetrics(world.registry)
        metrics.watch_spool(world.spool)
        metrics.watch_memory(MemoryBreaker(1 << 40, lambda: 0))
        metrics.watch_kafka(lambda: unknown[0])
        metrics.watch_rows({sink: lambda: 40 * unknown[0] for sink in ("mysql", "kafka")})
        metrics.watch_loops({"scan": GoodLoop(time.time())})
        await metrics.read()
        # From 0 on: a counter's first sample is no increase.
        await asyncio.to_thread(world.scraped.wait_for, 'pm_pipeline_files_total{outcome="completed"} == 0', DATA_S_MAX)
        for state, count, minutes in (("PENDING", 1_001, 0), ("ERROR", 101, 0), ("PARSING", 1, 130)):
            server.query(FILES.format(state, count, minutes), url.rpartition("/")[2])
        done = server.query(DONE, url.rpartition("/")[2])[0][0]
        for statement in DONE_SINCE:
            server.query(statement.format(done), url.rpartition("/")[2])
        _events(metrics, done)
        # One record that ClickHouse refused; the others of its block are written.
        clickhouse.dead.inc()
        clickhouse.rows.inc(999)
        unknown[0] = 2
        await metrics.read()


def _events(metrics: PipelineMetrics, done: int) -> None:
    metrics.scanned(
        ServerFolder("5GA", "h_21_u", "/a/"), Scanned((), (), 9, 1, 1, 1, Counter({NameFault.DOTS: 1}), 0.1)
    )
    metrics.scan_failed(ServerFolder("5GA", "h_21_u", "/b/"))
    metrics.loop_failed("scan")
    metrics.downloaded(1_000, 0.1)
    metrics.parsed(100, 0.01)
    for sink in ("mysql", "kafka"):
        metrics.written(sink, 0.2)
    metrics.settled(HeldItem(str(done), None, 1), ItemSettlement(ItemState.DONE, 0, time.time()))
    metrics.settled(HeldItem("1", None, 1), ItemSettlement(ItemState.DEAD, 1, time.time(), failure=Loss("bad", "file")))
    metrics.moved("moved")
    metrics.recovered("errors", 1)


def _data(server: PrometheusServer, promql: str) -> list[float]:
    def found() -> list[float]:
        return [value for _, value in server.query(promql) if not math.isnan(value)]

    return until(found, f"data for {promql}", DATA_S_MAX)


def test_every_query_of_the_dashboard_returns_data(prometheus: PrometheusServer) -> None:
    assert len(TARGETS) > 30
    for promql in TARGETS:
        assert _data(prometheus, promql), promql


def test_the_dashboard_shows_every_series_of_the_pipeline(prometheus: PrometheusServer) -> None:
    shown = " ".join(TARGETS)
    names = {labels["__name__"] for labels, _ in prometheus.query('{__name__=~"pm_pipeline_.*"}')}
    series = {name.removesuffix("_sum").removesuffix("_bucket") for name in names if not name.endswith("_created")}
    assert {name for name in series if name.removesuffix("_count") not in shown} == set()
    assert [value for _, value in prometheus.query('pm_pipeline_files_by_state{state="MOVED"}')] == [0.0]


def test_every_rule_is_valid_and_what_it_compares_is_there(prometheus: PrometheusServer) -> None:
    until(lambda: all(rule["health"] == "ok" for rule in prometheus.rules()), "every rule was evaluated")
    rules = prometheus.rules()
    recorded = {rule["name"]: rule["query"] for rule in rules if rule["type"] == "recording"}
    alerts = {rule["name"]: rule for rule in rules if rule["type"] == "alerting"}
    for name, promql in recorded.items():
        assert _data(prometheus, promql), name
        assert _data(prometheus, name), name
    for rule in alerts.values():
        assert re.split(r" [<>] ", rule["query"])[0] in recorded
        assert set(rule["annotations"]) == {"summary", "action"}
    told = {
        name: (
            alerts[name]["annotations"]["summary"],
            alerts[name]["query"].partition(" ")[2],
            alerts[name]["duration"],
        )
        for name in TEXTS
    }
    assert told == TEXTS


def test_errors_and_stuck_files_fire_and_a_backlog_must_last(prometheus: PrometheusServer) -> None:
    def raised() -> dict[str, str]:
        found = {rule["name"]: rule["state"] for rule in prometheus.rules() if rule["type"] == "alerting"}
        return {name: state for name, state in found.items() if state != "inactive"}

    lasting = dict.fromkeys(("PmTooManyPendingFiles", "PmScanFails"), "pending")
    fires = {**dict.fromkeys(("PmTooManyErrorFiles", "PmFilesStuck", "PmClickHouseSetAside"), "firing"), **lasting}
    until(lambda: {name: raised().get(name) for name in fires} == fires, lambda: f"the alerts of {raised()}")
    assert set(raised()) <= {*fires, "PmSinkBehind", "PmFilesFail"}, "nothing else is wrong"
