"""A small run of chaos: every kind of fault once, real servers and processes, and the account adds up."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pages import save
from headrace.tables import CassandraOptions
from headrace.testing.rig.cassandra_cluster import CassandraCluster
from headrace_scheduler.chaos.chaos_page import chaos_page
from headrace_scheduler.chaos.chaos_report import ChaosReport, markdown
from headrace_scheduler.chaos.chaos_run import ChaosOptions, ChaosRun
from headrace_scheduler.chaos.fault_plan import SMALL, FaultKind, plan_faults
from headrace_scheduler.chaos.servers import ChaosServers

TTL_MS = 4_000
# A seed whose plan has every kind of fault and is over soon. It is a mild one: faults that meet each other at length
# are for `make torture`.
SEED, SECONDS, PER_S = 12140, 10.0, 2.0
# A machine that is busy with other tests takes its time, and whatever is lost stays lost for as long.
FINISH_S_MAX = 600.0


@pytest.fixture
def servers(
    cassandra_cluster: CassandraCluster, cluster_options: CassandraOptions, postgres_database: str
) -> ChaosServers:
    nodes, proxies = cassandra_cluster.nodes, cassandra_cluster.proxies
    return ChaosServers.of(nodes, proxies, cluster_options.keyspace, postgres_database)


async def test_no_double_execution_whatever_breaks(servers: ChaosServers, tmp_path: Path) -> None:
    plan = plan_faults(SEED, SECONDS, TTL_MS / 1_000, SMALL)
    environment = {"PATH": os.environ["PATH"]}
    options = ChaosOptions(plan, TTL_MS, 3, PER_S, tmp_path, environment, finish_s_max=FINISH_S_MAX)
    lines: list[str] = []
    report = await ChaosRun(servers, options, lines.append).run()
    assert report.right, "\n".join([report.sentence, *report.wrong[:20], *lines])
    assert report.submitted == report.completed + report.dead_as_planned > 10
    assert report.effects == report.completed
    assert report.orders_sold == report.orders_paid == report.orders_shipped > 0
    assert report.faults == {str(kind): count for kind, count in SMALL.items()}
    _is_told(report, tmp_path)


def _is_told(report: ChaosReport, folder: Path) -> None:
    text = markdown(report, "headrace scheduler chaos")
    assert text.startswith("# Chaos: no double execution\n")
    assert f"| `worker_kill` | a worker is killed with -9 | {SMALL[FaultKind.WORKER_KILL]} |" in text
    assert f"| jobs accepted | {report.submitted:,} |" in text
    save(chaos_page(report), folder / "page.html")
    assert "No double execution" in (folder / "page.html").read_text()
    void = replace(report, void=("node_pause",))
    assert (void.right, "node_pause happened 0 times" in void.sentence) == (False, True)
    wrong = replace(report, wrong=("double_execution: a job has 2 effects",))
    assert "double_execution" in markdown(wrong, "x").partition("does not add up")[2]
