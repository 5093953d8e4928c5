"""What is shown and what alerts: every expression, asked of a real Prometheus that scrapes a live process."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from scheduler_processes import QUICK, Process, ended, made, services
from waiting import until

from headrace.errors import OperatorError
from headrace.testing.rig.prometheus import PrometheusServer
from headrace_scheduler.rca.prometheus_series import QUERIES, read_series

INFRA = Path(__file__).parents[1] / "infra"
RULES = (INFRA / "prometheus" / "job_scheduler_rules.yml").read_text()
DASHBOARD = json.loads((INFRA / "grafana" / "dashboards" / "job_scheduler_overview.json").read_text())
ALERTS = {
    "SchedulerLockLatencyHigh": ("> 0.5", 300),
    "SchedulerLockRenewalsFail": ("> 0.05", 60),
    "SchedulerNoWorker": ("< 1", 120),
    "SchedulerSaturated": (">= 1", 600),
    "SchedulerJobsDie": ("> 10", 0),
    "SchedulerJobDead": ("> 0", 60),
    "SchedulerRowsUnread": ("> 0", 900),
    "SchedulerClockSkewed": ("> 0.25", 60),
}
DATA_S_MAX = 60.0


@pytest.fixture(scope="module")
def began() -> datetime:
    """Before there was anything to scrape."""
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory, began: datetime) -> Iterator[PrometheusServer]:
    """It has scraped a process before, while and after jobs completed, were renewed and died."""
    folder = tmp_path_factory.mktemp("scraped")
    with (
        services(_environment(folder), folder, "all") as (process,),
        PrometheusServer(targets=[process.url.removeprefix("http://")], rules=[RULES]) as server,
    ):
        # From 0 on: a counter's first sample is no increase.
        server.wait_for("jobs_dlq_total == 0", DATA_S_MAX)
        _work(process)
        yield server


def _environment(folder: Path) -> dict[str, str]:
    most = {"WORKER_MAX_IN_PROGRESS": "16", "WORKER_MAX_ATTEMPTS": "1", **QUICK, "LOCK_TTL_MS": "3000"}
    return {"PATH": os.environ["PATH"], "SCHEDULER_HOME": str(folder / "scheduler"), "WORKER_BUCKETS": "4", **most}


def _work(process: Process) -> None:
    slow = made(process, {"type": "sleep", "seconds": 3})
    dead = [made(process, {"type": "fail"}) for _ in range(12)]
    for job_id in dead:
        ended(process, job_id, "dlq")
    ended(process, slow, "completed")


def _data(server: PrometheusServer, promql: str) -> list[float]:
    def found() -> list[float]:
        return [value for _, value in server.query(promql) if not math.isnan(value)]

    return until(found, f"data for {promql}", DATA_S_MAX)


def test_every_query_of_the_dashboard_returns_data(prometheus: PrometheusServer) -> None:
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert len(queries) > 20
    for promql in queries:
        assert _data(prometheus, promql), promql


def test_the_dashboard_shows_every_series_of_the_scheduler(prometheus: PrometheusServer) -> None:
    shown = " ".join(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])
    names = {labels["__name__"] for labels, _ in prometheus.query('{__name__=~"(jobs?|lock|lwt)_.*"}')}
    series = {name.removesuffix("_sum").removesuffix("_bucket") for name in names if not name.endswith("_created")}
    assert {name for name in series if name.removesuffix("_count") not in shown} == set()


def test_every_rule_is_valid_and_what_it_compares_is_there(prometheus: PrometheusServer) -> None:
    until(lambda: all(rule["health"] == "ok" for rule in prometheus.rules()), "every rule was evaluated")
    rules = prometheus.rules()
    recorded = {rule["name"]: rule["query"] for rule in rules if rule["type"] == "recording"}
    alerts = {rule["name"]: rule for rule in rules if rule["type"] == "alerting"}
    for name, promql in recorded.items():
        assert _data(prometheus, promql), name
        assert _data(prometheus, name), name
    assert {name: (rule["query"].partition(" ")[2], rule["duration"]) for name, rule in alerts.items()} == ALERTS
    for rule in alerts.values():
        assert re.split(r" (?:<|>=?) ", rule["query"])[0] in recorded
        assert set(rule["annotations"]) == {"summary", "action"}


def test_jobs_that_die_raise_their_alert_and_no_other(prometheus: PrometheusServer) -> None:
    def firing() -> set[str]:
        return {rule["name"] for rule in prometheus.rules() if rule.get("state") == "firing"}

    until(lambda: firing() == {"SchedulerJobsDie"}, lambda: f"the one alert of {firing()}")


def test_a_process_without_a_worker_is_not_counted_as_one(prometheus: PrometheusServer, tmp_path: Path) -> None:
    until(lambda: _data(prometheus, "scheduler:workers:count") == [1.0], "the one worker is counted")
    with (
        services(_environment(tmp_path), tmp_path, "api") as (process,),
        PrometheusServer(targets=[process.url.removeprefix("http://")], rules=[RULES]) as server,
    ):
        server.wait_for("jobs_in_progress_max == 0", DATA_S_MAX)
        until(lambda: {"SchedulerNoWorker"} <= _raised(server), lambda: f"the alert among {_raised(server)}")


def _raised(server: PrometheusServer) -> set[str]:
    """The alerts whose condition holds, also if not yet for long enough."""
    return {rule["name"] for rule in server.rules() if rule.get("state") in ("pending", "firing")}


async def test_a_root_cause_report_reads_its_series_from_it(prometheus: PrometheusServer, began: datetime) -> None:
    now = datetime.now(UTC)
    found = await read_series(prometheus.url, began, now)
    assert {series.name for series in found} == set(QUERIES)
    assert all(series.points for series in found)
    assert max(value for series in found if series.name == "in_progress" for _, value in series.points) >= 1
    with pytest.raises(OperatorError, match="did not answer with series"):
        await read_series(f"{prometheus.url}/elsewhere", began, now)
