"""What the pipeline counts: every series at 0 from the start, the table as it is, files once each, alerts when due."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from pm_file_world import FileWorld
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from headrace.core.claims import Loss
from headrace.sources import HeldItem, ItemSettlement, ItemState
from headrace_pm.ftp.names import NameFault
from headrace_pm.ftp.scanner import Scanned
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.observe.alerts import FileFigures, PipelineAlerts
from headrace_pm.observe.pipeline_metrics import PipelineMetrics
from headrace_pm.service import open_service
from headrace_pm.settings import PmSettings
from headrace_pm.tables.counts import FILE_STATES
from headrace_pm.work.memory import MemoryBreaker

PREFIX = "pm_pipeline_"


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    found = registry.get_sample_value(f"{PREFIX}{name}", labels)
    assert found is not None, f"there is no series {name} {labels}"
    return found


async def test_every_series_is_there_at_0_before_the_first_file(file_world: FileWorld) -> None:
    registry = CollectorRegistry()
    PipelineMetrics(registry, file_world.tables)
    samples = [
        sample for metric in registry.collect() for sample in metric.samples if not sample.name.endswith("_created")
    ]
    assert {sample.value for sample in samples} == {0.0}
    assert {sample.labels["state"] for sample in samples if "by_state" in sample.name} == set(FILE_STATES)
    assert len({metric.name for metric in registry.collect()}) > 25


async def test_the_table_is_shown_as_it_is(file_world: FileWorld) -> None:
    registry = CollectorRegistry()
    metrics = PipelineMetrics(registry, file_world.tables)
    old, *others = [file_world.add() for _ in range(4)]
    file_world.change(old, created_at=file_world.ago(180), mysql_processed="TRUE", state="'PARTIAL_DONE'")
    file_world.change(others[0], state="'ERROR'", error_message="'Unknown NE: x'")
    await metrics.read()
    assert {
        state: value(registry, "files_by_state", state=state) for state in ("PENDING", "PARTIAL_DONE", "ERROR")
    } == {
        "PENDING": 2.0,
        "PARTIAL_DONE": 1.0,
        "ERROR": 1.0,
    }
    assert value(registry, "files_by_state", state="MOVED") == 0.0
    assert 10_700 < value(registry, "oldest_seconds", state="PARTIAL_DONE") < 11_500
    assert value(registry, "stuck_files") == 1.0
    assert [value(registry, "sink_lag_files", sink=sink) for sink in ("mysql", "kafka")] == [2.0, 3.0]
    assert (
        value(registry, "sink_lag_seconds", sink="kafka") > 10_700 > value(registry, "sink_lag_seconds", sink="mysql")
    )
    assert abs(value(registry, "read_timestamp_seconds") - time.time()) < 60
    # Half an upload, or a server that is away: no sink is behind for it.
    file_world.change(others[1], created_at=file_world.ago(300), error_message="'64 bytes are missing'")
    await metrics.read()
    assert [value(registry, "sink_lag_files", sink=sink) for sink in ("mysql", "kafka")] == [1.0, 2.0]
    assert value(registry, "sink_lag_seconds", sink="kafka") < 11_500
    assert value(registry, "files_by_state", state="PENDING") == 2.0
    file_world.query("UPDATE file_processing_state SET state = 'MOVED'")
    await metrics.read()
    shown = {state: value(registry, "files_by_state", state=state) for state in FILE_STATES}
    assert shown == {**dict.fromkeys(FILE_STATES, 0.0), "MOVED": 4.0}, "a state that is empty again is 0"


async def test_a_file_is_counted_once_with_its_latency(file_world: FileWorld) -> None:
    registry = CollectorRegistry()
    metrics = PipelineMetrics(registry, file_world.tables)
    file_world.add()
    held, file = await file_world.hold()
    now = file_world.ago(0)
    file_world.change(file.file_id, mysql_insert_time=now, clickhouse_insert_time=now)
    file_world.query(f"UPDATE pm_file_revision SET seen_at = {file_world.moment_ago(1)}")
    metrics.settled(held, ItemSettlement(ItemState.DONE, 0, time.time()))
    for _ in range(2):
        await metrics.read()
        assert value(registry, "latency_seconds_count") == 1.0
        assert 50 < value(registry, "latency_seconds_sum") < 90
    for state, failure, outcome in (
        (ItemState.AGAIN, None, "waiting"),
        (ItemState.AGAIN, "x", "retried"),
        (ItemState.DEAD, "x", "failed"),
    ):
        metrics.settled(held, _settlement(state, failure))
        assert value(registry, "files_total", outcome=outcome) == 1.0
    assert value(registry, "files_total", outcome="completed") == 1.0


def _settlement(state: ItemState, failure: str | None) -> ItemSettlement:
    return ItemSettlement(state, 1, time.time(), failure=Loss(failure, "rule") if failure else None)


async def test_events_of_a_process_are_added_up(file_world: FileWorld) -> None:
    registry = CollectorRegistry()
    metrics = PipelineMetrics(registry, file_world.tables)
    refused = Counter({NameFault.TOO_LONG: 2})
    for path, listed in (("/a/", 5), ("/b/", 7), ("/a/", 6)):
        metrics.scanned(ServerFolder("5GA", "h_21_u", path), Scanned((), (), listed, 1, 1, 1, refused, 0.2))
    assert [value(registry, name) for name in ("listed_files", "unready_files", "scan_seconds_count")] == [
        13.0,
        6.0,
        3.0,
    ]
    assert value(registry, "refused_names", fault="too_long") == 4.0
    unknown = 3
    metrics.watch_kafka(lambda: unknown)
    await metrics.read()
    unknown = 5
    await metrics.read()
    assert value(registry, "kafka_unknown_deliveries_total") == 5.0
    acknowledged = 1_000
    metrics.watch_rows({"kafka": lambda: acknowledged})
    await metrics.read()
    acknowledged = 1_500
    metrics.written("kafka", 0.1)
    metrics.moved("moved")
    metrics.recovered("errors", 2)
    assert value(registry, "rows_total", sink="kafka") == 1_500.0
    assert value(registry, "write_seconds_count", sink="kafka") == 1.0
    assert value(registry, "moves_total", outcome="moved") == 1.0
    assert value(registry, "recovered_files_total", kind="errors") == 2.0


async def test_a_breaker_that_is_open_is_shown(file_world: FileWorld) -> None:
    """Else claims stop, files wait, and no graph says why."""
    registry, used = CollectorRegistry(), [50]
    breaker = MemoryBreaker(100, lambda: 1, lambda: used[0])
    metrics = PipelineMetrics(registry, file_world.tables)
    metrics.watch_memory(breaker)
    assert (value(registry, "memory_bytes"), value(registry, "memory_full")) == (50.0, 0.0)
    used[0] = 101
    assert not breaker.accepting()
    assert (value(registry, "memory_bytes"), value(registry, "memory_full")) == (101.0, 1.0)


@pytest.mark.parametrize(("name", "accepting"), [("scan", 1.0), ("worker", 1.0)])
async def test_a_process_without_a_spool_raises_no_alarm_for_it(tmp_path: Path, name: str, accepting: float) -> None:
    settings = PmSettings(home=tmp_path / "home", spool_dir=tmp_path / "spool")
    async with open_service(name, settings) as service:
        assert value(service.registry, "spool_accepting") == accepting
        assert value(service.registry, "memory_full") == 0.0


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        (FileFigures(0, 101, 0), "ALERT: Too many error files: 101"),
        (FileFigures(0, 0, 1), "ALERT: 1 files stuck for > 2 hours"),
    ],
)
def test_errors_and_stuck_files_are_told_at_once_and_again_after_a_while(figures: FileFigures, line: str) -> None:
    alerts = PipelineAlerts()
    told = [bool(alerts.due(figures, now)) for now in (0.0, 15.0, 599.0, 600.0, 615.0)]
    assert told == [True, False, False, True, False]
    assert alerts.due(FileFigures(1_000, 100, 0), 630.0) == []
    assert alerts.due(figures, 645.0) == [line], "what came back is told at once"


def test_pending_files_are_told_only_when_they_last() -> None:
    """5,000 come at once every five minutes: that is no backlog."""
    alerts, many = PipelineAlerts(), FileFigures(5_000, 0, 0)
    assert [line for now in range(0, 590, 10) for line in alerts.due(many, now)] == []
    assert alerts.due(FileFigures(1_000, 0, 0), 595.0) == []
    assert [line for now in range(600, 1_200, 10) for line in alerts.due(many, now)] == []
    assert alerts.due(many, 1_200.0) == ["ALERT: Too many pending files: 5000"]


async def test_alerts_are_log_lines(file_world: FileWorld) -> None:
    number = file_world.add()
    file_world.change(number, created_at=file_world.ago(121))
    with capture_logs() as lines:
        await PipelineMetrics(CollectorRegistry(), file_world.tables).read()
    assert [(line["event"], line["log_level"]) for line in lines] == [("ALERT: 1 files stuck for > 2 hours", "error")]


async def test_rows_that_nobody_settled_are_not_asked_for(file_world: FileWorld) -> None:
    """A settlement of a file whose row is gone does not keep the others from being read."""
    registry = CollectorRegistry()
    metrics = PipelineMetrics(registry, file_world.tables)
    metrics.settled(HeldItem("999999", None, 1), ItemSettlement(ItemState.DONE, 0, time.time()))
    await metrics.read()
    assert value(registry, "latency_seconds_count") == 0.0
